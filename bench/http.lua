-- A GetItem as an SDK sends it, over and over: for wrk.
wrk.method = "POST"
wrk.headers["X-Amz-Target"] = "DynamoDB_20120810.GetItem"
wrk.headers["Content-Type"] = "application/x-amz-json-1.0"
wrk.headers["X-Amz-Date"] = "20240101T000000Z"
wrk.headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20240101/us-east-1/dynamodb/aws4_request, "
    .. "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
    .. "Signature=d3d1904c05f40fc0b3c52a68918c5c8559b532e06e085698e8716a9a086b136f"
wrk.body = '{"TableName": "bench", "Key": {"p": {"S": "user:0000000000000000000"}}}'

function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format("RATE %.0f OF %d BAD %d\n", summary.requests / (summary.duration / 1e6), summary.requests,
                           errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
