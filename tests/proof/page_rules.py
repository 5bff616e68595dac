#!/usr/bin/env python3
"""Pages of one partition, one interval, writers inside it: the rules of cache/interval.h, fetch.c and write.c. Same P1, P2 as item_rules.py. A node knows
the pending writes whose intent found it; made while others were pending it is blind until none is. Exits 1 on an unexpected outcome."""
import sys
from collections import deque
surprises=[]
# node: None or (page value or None, loading flight id or None, known pending writes, blind)
def run(expect,name,nw,readers,rule='blind',intent=True,join_dirty=False,done=True,evict=1):
    init=(None,frozenset(),0,0,0,(0,)*nw,(0,)*nw,tuple((0,0,0,None) for _ in readers),(),evict)
    names=('node','pend','store','acked','seen','W','V','R','F','ev')
    prev={init:None};q=deque([init]);bad={}
    def trace(s,last):
        o=[last]
        while prev[s]: p,l=prev[s];o.append(l);s=p
        return o[::-1]
    while q and len(bad)<2:
        S=q.popleft();d=dict(zip(names,S))
        def add(label,**k):
            n=dict(d);n.update(k);t=tuple(n[x] for x in names)
            if t not in prev: prev[t]=(S,label);q.append(t)
        node,pend,store,acked,seen,W,V,R,F,ev=S
        def touch(kp=None):
            n=node;f=F
            if n is not None:
                if n[1] is not None: fl=F[n[1]];f=F[:n[1]]+((fl[0],True,fl[2]),)+F[n[1]+1:]
                n=(None,n[1],kp(n[2]),n[3])
            return n,f
        for i in range(nw):
            w=lambda x:W[:i]+(x,)+W[i+1:]
            if W[i]==0:
                if not intent: add(f"w{i+1} begins",W=w(1)); continue
                n,f=touch(lambda s:s|{i}); add(f"w{i+1} intent",node=n,F=f,pend=pend|{i},W=w(1))
            elif W[i]==1: add(f"w{i+1} commits {store+1}",store=store+1,W=w(2),V=V[:i]+(store+1,)+V[i+1:])
            elif W[i]==2:
                n,f=touch(lambda s:s-{i}) if done else (node and node[:2]+(node[2]-{i},node[3]),F); add(f"w{i+1} done, ack",node=n,F=f,pend=pend-{i},acked=max(acked,V[i]),W=w(3))
        for j,(pc,fa,fs,fl) in enumerate(R):
            r=lambda x:R[:j]+(x,)+R[j+1:]
            if pc: continue
            if readers[j]=='cons': add(f"r{j+1} consistent {store}",seen=max(seen,store),R=r((9,0,0,None)));continue
            if node and node[0] is not None:
                v=node[0];L=f"r{j+1} hit {v} (acked {acked}, seen {seen})"
                if v<acked: bad.setdefault('P1',trace(S,L))
                elif v<seen: bad.setdefault('P2',trace(S,L))
                add(L,seen=max(seen,v),R=r((9,0,0,None)))
            elif node and node[1] is not None and (join_dirty or not F[node[1]][1]): add(f"r{j+1} joins {node[1]}",R=r((1,acked,seen,node[1])))
            else:
                if node is None: kp=frozenset();blind=bool(pend);dirty=blind and rule!='stripe unknown'
                else:
                    kp=node[2];blind=node[3] and bool(pend)
                    dirty=bool(kp) or (rule=='blind' and blind)
                add(f"r{j+1} loads as {len(F)}, dirty {dirty}",node=(None,len(F),kp,blind),F=F+((None,dirty,False),),R=r((1,acked,seen,len(F))))
        for f,(val,dirty,dn) in enumerate(F):
            if dn: continue
            if val is None: add(f"flight {f} reads {store}",F=F[:f]+((store,dirty,False),)+F[f+1:])
            else:
                R2=list(R);ns=seen;L=f"flight {f} lands {val}{'' if dirty else ', published'}"
                for j,(pc,fa,fs,fl) in enumerate(R):
                    if pc==1 and fl==f:
                        if val<fa: bad.setdefault('P1',trace(S,L+f" -> r{j+1}, {fa} was acked"))
                        elif val<fs: bad.setdefault('P2',trace(S,L+f" -> r{j+1}, {fs} was seen"))
                        R2[j]=(9,0,0,None);ns=max(ns,val)
                n=node
                if n is not None: n=(val if not dirty else n[0],None if n[1]==f else n[1],n[2],n[3])
                add(L,node=n,F=F[:f]+((val,dirty,True),)+F[f+1:],R=tuple(R2),seen=ns)
        if ev and node and node[0] is not None: add("page evicted",ev=0,node=(None,)+node[1:] if node[1] is not None else None)
    print(f"{name}: {len(prev)} states; "+(", ".join(sorted(bad))+" broken" if bad else "no violation"))
    if ",".join(sorted(bad))!=expect: surprises.append(name)
    for b,t in sorted(bad.items()): print("   "+b+": "+" | ".join(t))
rd=['get','get','cons']; rd4=['get']*3+['cons']
run('P1,P2',"no intent (old image known at done only), join any",1,rd,intent=False,join_dirty=True)
run('P2',"no intent, join clean only",1,rd,intent=False)
run('P2',"intent, a new node does not know of pending writes",1,rd,rule='stripe unknown')
run('P2',"intent, only the page that made the node is dirty",1,rd4,rule='first page only')
run('P1,P2',"intent, stripe pending, but dirty pages joined",1,rd,join_dirty=True)
run('',"the rules, 1 writer",1,rd4); run('',"the rules, 2 writers",2,rd4); run('',"the rules, 2 writers 3 gets",2,['get']*3)
run('',"done does not touch: a second guard, 2 writers",2,rd,done=False); run('P1,P2',"done does not touch, no intent",1,rd,intent=False,done=False)
sys.exit(1 if surprises else 0)
