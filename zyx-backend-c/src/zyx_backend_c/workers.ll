; The worker pool: how a launch is shared out over threads. `workers.py` says what it is for; this is how it works.
;
; One thread at a time calls @zyx_run (a lock in Python sees to it), and runs a list of steps in order. A step is a kernel's
; function over the groups first <= g < groups, in chunks of `chunk` groups. Large steps are shared: the caller opens the *gate*,
; workers enter through it, everybody takes chunks from one counter until none is left, and the caller closes the gate and
; waits until the last worker is out. A worker that comes late finds the gate closed and has lost nothing: the caller took
; its chunks. So the worst case is the speed of one thread, never a lost time slice.
;
; The gate is one 32-bit word, on which idle workers sleep:
;
;     bits 0..10    workers inside
;     bit  11       open
;     bits 12..31   number of the job (wraps; a worker remembers the last one it did, so as not to enter twice)
;
; Placeholders that workers.py fills in: PAUSE, an instruction; FUTEX and YIELD, numbers of system calls; DECLARE_SYSCALL.

%Step = type {
  ptr,                        ; 0  function: void (ptr args, i64 begin, i64 end, ptr scratch)
  ptr,                        ; 1  args
  i64,                        ; 2  groups
  i64,                        ; 3  chunk: groups taken at a time; all of them means the caller alone
  i64,                        ; 4  cost: estimated nanoseconds on one thread
  i64 }                       ; 5  first group: those before it are left out

%Program = type {
  i64,                        ; 0  number of steps
  i64,                        ; 1  cost of them together
  [0 x %Step] }               ; 2

%Pool = type {
  i32, [15 x i32],            ; 0  gate. Gate and chunk counter have a cache line each: all threads write to them
  i64, [7 x i64],             ; 2  next: first chunk that nobody took
  i32, i32, i32, i32,         ; 4  sleepers, 5 stop, 6 workers, 7 spins before sleeping
  [12 x i32],                 ; 8
  ptr, ptr, i64, i64,         ; 9  the open job: function, 10 args, 11 groups, 12 chunk
  ptr, i64,                   ; 13 scratch memory of the caller, 14 bytes from one thread's to the next one's
  i64, i64,                   ; 15 least cost of a step to share with workers that are awake, 16 with sleeping ones
  i64, i64, i64, i64, i64 }   ; 17 calls, 18 steps, 19 shared steps, 20 wake-ups, 21 chunks that workers took

DECLARE_SYSCALL

; Run a program.
define void @zyx_run(ptr %pool, ptr %program) #0 {
entry:
  %count = load i64, ptr %program
  %total.p = getelementptr %Program, ptr %program, i32 0, i32 1
  %total = load i64, ptr %total.p
  %steps = getelementptr %Program, ptr %program, i32 0, i32 2
  %calls.p = getelementptr %Pool, ptr %pool, i32 0, i32 17
  %calls.0 = load i64, ptr %calls.p
  %calls.1 = add i64 %calls.0, 1
  store i64 %calls.1, ptr %calls.p
  %steps.p = getelementptr %Pool, ptr %pool, i32 0, i32 18
  %steps.0 = load i64, ptr %steps.p
  %steps.1 = add i64 %steps.0, %count
  store i64 %steps.1, ptr %steps.p
  %scratch.p = getelementptr %Pool, ptr %pool, i32 0, i32 13
  %scratch = load ptr, ptr %scratch.p
  %awake.p = getelementptr %Pool, ptr %pool, i32 0, i32 15
  %awake.least = load i64, ptr %awake.p
  %asleep.p = getelementptr %Pool, ptr %pool, i32 0, i32 16
  %asleep.least = load i64, ptr %asleep.p
  %is.long = icmp uge i64 %total, %asleep.least      ; long enough to wake workers for
  %more.0 = icmp ne i64 %count, 0
  br i1 %more.0, label %step, label %done

step:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %s = getelementptr %Step, ptr %steps, i64 %i
  %function = load ptr, ptr %s
  %args.p = getelementptr %Step, ptr %s, i32 0, i32 1
  %args = load ptr, ptr %args.p
  %groups.p = getelementptr %Step, ptr %s, i32 0, i32 2
  %groups = load i64, ptr %groups.p
  %chunk.p = getelementptr %Step, ptr %s, i32 0, i32 3
  %chunk = load i64, ptr %chunk.p
  %cost.p = getelementptr %Step, ptr %s, i32 0, i32 4
  %cost = load i64, ptr %cost.p
  %first.p = getelementptr %Step, ptr %s, i32 0, i32 5
  %first = load i64, ptr %first.p
  %left = sub i64 %groups, %first
  %is.many = icmp ult i64 %chunk, %left
  %is.large = icmp uge i64 %cost, %awake.least
  %wanted = and i1 %is.many, %is.large
  br i1 %wanted, label %consider, label %alone

consider:                                            ; is there anybody to share with?
  %workers.p = getelementptr %Pool, ptr %pool, i32 0, i32 6
  %workers = load i32, ptr %workers.p
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %sleepers = load atomic i32, ptr %sleepers.p monotonic, align 4
  %somebody = icmp ult i32 %sleepers, %workers       ; awake
  %anybody = icmp ne i32 %workers, 0
  %wakeable = and i1 %anybody, %is.long
  %shared = or i1 %somebody, %wakeable
  br i1 %shared, label %share, label %alone

share:
  call void @share(ptr %pool, ptr %s, ptr %scratch, i1 %is.long)
  br label %next

alone:
  call void %function(ptr %args, i64 %first, i64 %groups, ptr %scratch)
  br label %next

next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %step, label %done

done:
  ret void
}

; Run one step together with the workers; wake those that sleep if `wake`.
define internal void @share(ptr %pool, ptr %s, ptr %scratch, i1 %wake) #0 {
entry:
  %shared.p = getelementptr %Pool, ptr %pool, i32 0, i32 19
  %shared.0 = load i64, ptr %shared.p
  %shared.1 = add i64 %shared.0, 1
  store i64 %shared.1, ptr %shared.p
  %job.p = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %job = load [4 x i64], ptr %s                      ; function, args, groups, chunk, in the same order
  store [4 x i64] %job, ptr %job.p
  %first.p = getelementptr %Step, ptr %s, i32 0, i32 5
  %first = load i64, ptr %first.p
  %next.p = getelementptr %Pool, ptr %pool, i32 0, i32 2
  store atomic i64 %first, ptr %next.p monotonic, align 8
  %gate.0 = load atomic i32, ptr %pool monotonic, align 4    ; closed, nobody inside: only this thread writes to it now
  %gate.1 = add i32 %gate.0, 6144                    ; the next number, and open: 4096 + 2048
  %gate.2 = atomicrmw xchg ptr %pool, i32 %gate.1 seq_cst    ; publishes the job
  br i1 %wake, label %look, label %work

look:                                                ; after opening, so that a worker falling asleep sees it or is seen
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %sleeping = icmp ne i32 %sleepers, 0
  br i1 %sleeping, label %wakeup, label %work

wakeup:                                              ; one worker for each chunk but the caller's first
  %groups.p = getelementptr %Step, ptr %s, i32 0, i32 2
  %groups = load i64, ptr %groups.p
  %chunk.p = getelementptr %Step, ptr %s, i32 0, i32 3
  %chunk = load i64, ptr %chunk.p
  %left = sub i64 %groups, %first
  %last.group = sub i64 %left, 1
  %helpers = udiv i64 %last.group, %chunk
  %wakes.p = getelementptr %Pool, ptr %pool, i32 0, i32 20
  %wakes.0 = load i64, ptr %wakes.p
  %wakes.1 = add i64 %wakes.0, 1
  store i64 %wakes.1, ptr %wakes.p
  %ignored = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %pool, i64 129, i64 %helpers)    ; FUTEX_WAKE_PRIVATE
  br label %work

work:
  %taken = call i64 @take_chunks(ptr %pool, ptr %scratch)
  %gate.3 = atomicrmw and ptr %pool, i32 -2049 acq_rel       ; close
  %inside.0 = and i32 %gate.3, 2047
  %busy.0 = icmp ne i32 %inside.0, 0
  br i1 %busy.0, label %wait, label %done

wait:                                                ; for chunks in the hands of workers
  %spin = phi i32 [ 0, %work ], [ %spin.next, %again ]
  %gate = load atomic i32, ptr %pool acquire, align 4
  %inside = and i32 %gate, 2047
  %busy = icmp ne i32 %inside, 0
  br i1 %busy, label %relax, label %done

relax:
  %patient = icmp ult i32 %spin, 1000
  br i1 %patient, label %pause, label %yield

pause:
  PAUSE
  br label %again

yield:                                               ; the worker may be waiting for this very core
  %yielded = call i64 (i64, ...) @syscall(i64 YIELD)
  br label %again

again:
  %spin.next = add i32 %spin, 1
  br label %wait

done:
  ret void
}

; Run chunks of the open job until none is left; return how many.
define internal i64 @take_chunks(ptr %pool, ptr %scratch) #0 {
entry:
  %function.p = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %function = load ptr, ptr %function.p
  %args.p = getelementptr %Pool, ptr %pool, i32 0, i32 10
  %args = load ptr, ptr %args.p
  %groups.p = getelementptr %Pool, ptr %pool, i32 0, i32 11
  %groups = load i64, ptr %groups.p
  %chunk.p = getelementptr %Pool, ptr %pool, i32 0, i32 12
  %chunk = load i64, ptr %chunk.p
  %next.p = getelementptr %Pool, ptr %pool, i32 0, i32 2
  br label %take

take:
  %taken = phi i64 [ 0, %entry ], [ %taken.next, %run ]
  %begin = atomicrmw add ptr %next.p, i64 %chunk monotonic
  %left = icmp ult i64 %begin, %groups
  br i1 %left, label %run, label %done

run:
  %far = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %far, i64 %groups)
  call void %function(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  %taken.next = add i64 %taken, 1
  br label %take

done:
  ret i64 %taken
}

; The life of worker number `index`, from 1 on: returns when `stop` is set.
define void @zyx_work(ptr %pool, i64 %index) #0 {
entry:
  %sleepers.p = getelementptr %Pool, ptr %pool, i32 0, i32 4
  %stop.p = getelementptr %Pool, ptr %pool, i32 0, i32 5
  %spins.p = getelementptr %Pool, ptr %pool, i32 0, i32 7
  %scratch.p = getelementptr %Pool, ptr %pool, i32 0, i32 13
  %stride.p = getelementptr %Pool, ptr %pool, i32 0, i32 14
  %chunks.p = getelementptr %Pool, ptr %pool, i32 0, i32 21
  %spins = load i32, ptr %spins.p
  br label %look

look:
  %spin = phi i32 [ 0, %entry ], [ %spin.next, %idle ], [ 0, %leave ], [ 0, %slept ], [ %spin, %enter ]
  %last = phi i32 [ -1, %entry ], [ %last, %idle ], [ %number, %leave ], [ %last, %slept ], [ %last, %enter ]
  %gate = load atomic i32, ptr %pool acquire, align 4
  %stop = load atomic i32, ptr %stop.p monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %done, label %try

try:
  %number = lshr i32 %gate, 12
  %open.bit = and i32 %gate, 2048
  %open = icmp ne i32 %open.bit, 0
  %new = icmp ne i32 %number, %last
  %welcome = and i1 %open, %new
  br i1 %welcome, label %enter, label %wait

enter:                                               ; only through a gate that is still the one that was seen
  %entered = add i32 %gate, 1
  %pair = cmpxchg ptr %pool, i32 %gate, i32 %entered acq_rel acquire
  %inside = extractvalue { i32, i1 } %pair, 1
  br i1 %inside, label %leave, label %look

leave:
  %base = load ptr, ptr %scratch.p
  %stride = load i64, ptr %stride.p
  %offset = mul i64 %stride, %index
  %scratch = getelementptr i8, ptr %base, i64 %offset
  %taken = call i64 @take_chunks(ptr %pool, ptr %scratch)
  %before = atomicrmw add ptr %chunks.p, i64 %taken monotonic
  %left = atomicrmw sub ptr %pool, i32 1 release     ; the caller waits for this: what was computed is visible after it
  br label %look

wait:
  %patient = icmp ult i32 %spin, %spins
  br i1 %patient, label %idle, label %sleep

idle:
  PAUSE
  %spin.next = add i32 %spin, 1
  br label %look

sleep:                                               ; returns at once if the gate has changed since it was read
  %one.more = atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  %ignored = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %pool, i64 128, i32 %gate, ptr null)    ; FUTEX_WAIT_PRIVATE
  br label %slept

slept:
  %one.less = atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %look

done:
  ret void
}

; Stop: set `stop`, change the gate so that nobody falls asleep any more, wake all.
define void @zyx_stop(ptr %pool) #0 {
  %stop.p = getelementptr %Pool, ptr %pool, i32 0, i32 5
  store atomic i32 1, ptr %stop.p seq_cst, align 4
  %gate = atomicrmw add ptr %pool, i32 4096 seq_cst
  %ignored = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %pool, i64 129, i64 2147483647)
  ret void
}

attributes #0 = { nounwind }
