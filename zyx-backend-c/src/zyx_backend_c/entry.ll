; What Python calls to run a program of one step on the calling thread: a builtin function of CPython's, METH_FASTCALL.
; `entry.py` says what it is for; this stands below workers.ll, in one text. The object `self` is the address of
; words that say what to run: the addresses of the program, of the worker pool, which counts calls, and of the object that is
; the memory pool that buffers are to be of; the number of arguments; and for each of these the bytes that a buffer must
; have, or -1 for a number. Its arguments are those of the kernel: buffers, and of numbers their words, unsigned integers.
;
; It returns True; or False if something does not fit, and then nothing was run.

declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare void @Py_DecRef(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyBool_FromLong(i64)

@zyx_name_extent = external global i8                ; names of attributes, strings of Python
@zyx_name_pool = external global i8

define ptr @zyx_enter(ptr %self, ptr %given, i64 %count) #0 {
entry:
  %words = alloca i64, i64 %count
  %what = call ptr @PyLong_AsVoidPtr(ptr %self)
  %program = load ptr, ptr %what
  %workers.p = getelementptr ptr, ptr %what, i64 1
  %workers = load ptr, ptr %workers.p
  %pool.p = getelementptr ptr, ptr %what, i64 2
  %pool = load ptr, ptr %pool.p
  %parameters.p = getelementptr i64, ptr %what, i64 3
  %parameters = load i64, ptr %parameters.p
  %least = getelementptr i64, ptr %what, i64 4
  %fits = icmp eq i64 %count, %parameters
  br i1 %fits, label %next, label %refuse

next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %keep ]
  %more = icmp ult i64 %i, %parameters
  br i1 %more, label %convert, label %check

convert:
  %object.p = getelementptr ptr, ptr %given, i64 %i
  %object = load ptr, ptr %object.p
  %least.p = getelementptr i64, ptr %least, i64 %i
  %least.size = load i64, ptr %least.p
  %is.number = icmp eq i64 %least.size, -1
  br i1 %is.number, label %number, label %buffer

number:
  %number.word = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  br label %keep

buffer:
  %own.pool = call ptr @PyObject_GetAttr(ptr %object, ptr @zyx_name_pool)
  %has.pool = icmp ne ptr %own.pool, null
  br i1 %has.pool, label %compare, label %refuse

compare:
  call void @Py_DecRef(ptr %own.pool)
  %is.own = icmp eq ptr %own.pool, %pool
  br i1 %is.own, label %extent, label %refuse

extent:
  %pair = call ptr @PyObject_GetAttr(ptr %object, ptr @zyx_name_extent)
  %has.extent = icmp ne ptr %pair, null
  br i1 %has.extent, label %measure, label %refuse

measure:                                             ; a tuple of address and size, which the buffer keeps
  %address.o = call ptr @PyTuple_GetItem(ptr %pair, i64 0)
  %size.o = call ptr @PyTuple_GetItem(ptr %pair, i64 1)
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %address.o)
  %size = call i64 @PyLong_AsUnsignedLongLong(ptr %size.o)
  call void @Py_DecRef(ptr %pair)
  %reaches = icmp uge i64 %size, %least.size
  %is.alive = icmp ne i64 %address, 0
  %is.sound = and i1 %reaches, %is.alive
  br i1 %is.sound, label %keep, label %refuse

keep:
  %word = phi i64 [ %number.word, %number ], [ %address, %measure ]
  %word.p = getelementptr i64, ptr %words, i64 %i
  store i64 %word, ptr %word.p
  %i.next = add i64 %i, 1
  br label %next

refuse:                                              ; whoever called says why
  call void @PyErr_Clear()
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false

check:
  %error = call ptr @PyErr_Occurred()
  %has.error = icmp ne ptr %error, null
  br i1 %has.error, label %refuse, label %note

note:                                                ; fields 17 and 18 of %Pool: calls, steps
  %calls.p = getelementptr i64, ptr %workers, i64 COUNTERS
  %calls.0 = load i64, ptr %calls.p
  %calls.1 = add i64 %calls.0, 1
  store i64 %calls.1, ptr %calls.p
  %steps.p = getelementptr i64, ptr %calls.p, i64 1
  %steps.0 = load i64, ptr %steps.p
  %steps.1 = add i64 %steps.0, 1
  store i64 %steps.1, ptr %steps.p
  %cost.p = getelementptr i64, ptr %program, i64 1
  %cost = load i64, ptr %cost.p
  %function.p = getelementptr i64, ptr %program, i64 2
  %function = load ptr, ptr %function.p
  %groups.p = getelementptr i64, ptr %program, i64 4
  %groups = load i64, ptr %groups.p
  %is.long = icmp uge i64 %cost, RELEASE
  br i1 %is.long, label %release, label %run

run:                                                 ; not worth letting go of the interpreter's lock for
  call void %function(ptr %words, i64 0, i64 %groups, ptr null)
  br label %done

release:
  %thread = call ptr @PyEval_SaveThread()
  call void %function(ptr %words, i64 0, i64 %groups, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %done

done:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true
}
