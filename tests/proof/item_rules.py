#!/usr/bin/env python3
"""Exhaustive interleavings of the rules of cache/stripe.h, fetch.c and write.c on one key k, and of simpler rules that fail. Store value = number of commits to k.
P1: a read invoked after an ack returns at least that write.  P2: a read invoked after another read completed returns at least its value. Exits 1 on an unexpected outcome."""
import sys
from collections import deque
surprises=[]
def run(expect, name, writers, readers, join='any', s3else='nothing', inst='untouched', step1=True, use_ver=True, use_pend=True, evict=1, quiet=False, s3_detach=False, order_fifo=None):
    # writers: list of (touches_k, image_known); readers: list of 'get'|'cons'
    nw, nr = len(writers), len(readers)
    # state: ver,pend,cache,store,commits,acked,seen, table, wst((pc,v1,val)..), rst((pc,fa,fs,flight)..), flights((token,may,val,done)..), ev
    init=(0,0,0 if False else None,0,0,0,None,tuple((0,0,0) for _ in writers),tuple((0,0,0,None) for _ in readers),(),evict)
    seen_states={init:None}; q=deque([init]); bad={}
    def add(s,p,label):
        if s not in seen_states: seen_states[s]=(p,label); q.append(s)
    def trace(s,last):
        out=[last]
        while seen_states[s]: p,l=seen_states[s]; out.append(l); s=p
        return out[::-1]
    while q and len(bad)<2:
        S=q.popleft(); ver,pend,cache,store,acked,seen,table,W,R,F,ev=S
        def mk(**k):
            d=dict(ver=ver,pend=pend,cache=cache,store=store,acked=acked,seen=seen,table=table,W=W,R=R,F=F,ev=ev); d.update(k); return tuple(d[x] for x in('ver','pend','cache','store','acked','seen','table','W','R','F','ev'))
        for i,(pc,v1,val) in enumerate(W):
            tk,img=writers[i]; n=f"w{i+1}{'' if tk else '(other key, same stripe)'}"
            def wset(x): return W[:i]+(x,)+W[i+1:]
            if pc==0:
                if step1: add(mk(ver=ver+1,pend=pend+1,cache=None if tk else cache,table=None if tk else table,W=wset((1,ver+1,0))),S,f"{n} step 1")
                else: add(mk(W=wset((1,ver,0))),S,f"{n} begins")
            elif pc==1: add(mk(store=store+(1 if tk else 0),W=wset((2,v1,store+1))),S,f"{n} commits{' value %d'%(store+1) if tk else ''}")
            elif pc==2:
                p2=pend-(1 if step1 else 0); un=(ver==v1); ok=img and tk and un and (inst=='untouched' or p2==0)
                c=cache; t=table
                if ok: c=val
                elif tk and s3else=='remove': c=None
                if s3_detach and tk: t=None
                add(mk(ver=ver+1,pend=p2,cache=c,table=t,acked=max(acked,val) if tk else acked,W=wset((3,0,0))),S,f"{n} step 3 and ack{' (installs %d)'%val if ok else ''}")
        for j,(pc,fa,fs,fl) in enumerate(R):
            n=f"r{j+1}"
            def rset(x): return R[:j]+(x,)+R[j+1:]
            if pc==0:
                if readers[j]=='cons':
                    v=store; add(mk(seen=max(seen,v),R=rset((9,0,0,None))),S,f"{n} consistent read returns {v}"); continue
                if cache is not None:
                    v=cache; L=f"{n} hit returns {v} (acked {acked}, seen {seen})"
                    if v<acked: bad.setdefault('P1',trace(S,L))
                    elif v<seen: bad.setdefault('P2',trace(S,L))
                    add(mk(seen=max(seen,v),R=rset((9,0,0,None))),S,L); continue
                joinable = table is not None and (join=='any' or (join=='token' and F[table][0]==ver) or (join=='pend0' and pend==0))
                if joinable: add(mk(R=rset((1,acked,seen,table))),S,f"{n} misses, joins flight {table}")
                else:
                    may=(pend==0) if use_pend else True
                    t = len(F) if (join!='pend0' or pend==0) else table
                    add(mk(F=F+((ver,may,None,False),),table=t,R=rset((1,acked,seen,len(F)))),S,f"{n} misses, starts flight {len(F)} (token {ver}, may_fill {may})")
            elif pc==2:
                pass
        for f,(tok,may,val,done) in enumerate(F):
            if done: continue
            def fset(x): return F[:f]+(x,)+F[f+1:]
            if val is None: add(mk(F=fset((tok,may,store,False))),S,f"flight {f} reads {store} from the store")
            else:
                ok=may and ((tok==ver) or not use_ver) and (pend==0 or not use_pend)
                R2=list(R); ns=seen; L=f"flight {f} lands {val}{', installs' if ok else ''}"
                for j,(pc,fa,fs,fl) in enumerate(R):
                    if pc==1 and fl==f:
                        if val<fa: bad.setdefault('P1',trace(S,L+f"; r{j+1} gets {val} though {fa} was acknowledged before it asked"))
                        elif val<fs: bad.setdefault('P2',trace(S,L+f"; r{j+1} gets {val} though another read had returned {fs} before it asked"))
                        R2[j]=(9,0,0,None); ns=max(ns,val)
                add(mk(cache=val if ok else cache,table=None if table==f else table,F=fset((tok,may,val,True)),R=tuple(R2),seen=ns),S,L)
        if ev and cache is not None: add(mk(cache=None,ev=ev-1),S,"evicted")
    print(f"{name}: {len(seen_states)} states; "+(", ".join(sorted(bad)) + " broken" if bad else "no violation"))
    if ",".join(sorted(bad))!=expect: surprises.append(name)
    if not quiet:
        for b,t in sorted(bad.items()): print(f"   {b}: "+" | ".join(t))
    return bad
two=[(True,True),(True,True)]; oth=[(True,True),(False,True)]; unk=[(True,False)]
rd=['get','get','cons']
for nm,w in(("2 writers of k",two),("writer of k + other key in stripe",oth),("image unknown",unk)):
    run("P1,P2","naive rules, "+nm,w,rd)
print()
for nm,w in(("2 writers of k",two),("other key",oth),("unknown",unk)):
    run("P1,P2","only step 3 removes, "+nm,w,rd,s3else='remove',quiet=False)
print()
M=dict(join='pend0',s3else='remove',inst='pend0')
for nm,w,r in(("2 writers of k",two,rd),("other key",oth,rd),("unknown",unk,rd),("3 writers",[(True,True),(True,False),(False,True)],['get','get'])):
    run("","mended, "+nm,w,r,**M)
run("P2","mended, join by token only, 2 writers",two,rd,join='token',s3else='remove',inst='pend0')
print("\nguards compiled out of the mended rules:")
run("P1","no ver",two,rd,use_ver=False,**M); run("P2","no pending at fill",two,rd,use_pend=False,**M)
run("P2","no pending at fill, unknown image",unk,rd,use_pend=False,**M)
run("P2","mended but install ignores pending",two,rd,join='pend0',s3else='remove',inst='untouched')
print("\nindex page whose key is known only after the engine read the old image:")
run("P1,P2","steps 1 missing, step 3 only",unk,rd,step1=False,s3else='remove',join='pend0',inst='pend0')
run("","intent before commit",unk,rd,**M)
if surprises: print('unexpected: '+', '.join(surprises))
sys.exit(1 if surprises else 0)
