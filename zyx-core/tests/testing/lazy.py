"""A device that puts off its work as long as it can, and then does what was queued last first, as far as events let it.

Whoever does not wait for what he needs, or gives memory back too early, gets wrong results from it.
"""

from zyx.backend.event import Event
from zyx.builtin.host import HostPool
from zyx.builtin.interpreter import InterpreterDevice
from zyx.errors import InvalidEventError

_POISON = 0xA5


class Work:
    """Something to be done, once, after other work.

    Attributes:
        action: Does it; None once it is done.
        after: What has to be done before.
        error: What it raised, for whoever waits for it first.
        in_any_case: Whether it is also done if something before it failed.
    """

    def __init__(self, action, after, *, in_any_case=False):
        self.action = action
        self.after = after
        self.error = None
        self.in_any_case = in_any_case

    def finish(self):
        """Do it, if it is not done yet."""
        stack = [self]
        while stack:
            work = stack[-1]
            waiting = [before for before in work.after if before.action is not None]
            if waiting and work.action is not None:
                stack.extend(waiting)
                continue
            stack.pop()
            action, work.action = work.action, None
            errors = [before.error for before in work.after if before.error is not None]
            work.after = []
            if action is not None and (work.in_any_case or not errors):
                try:
                    action()
                except Exception as error:  # noqa: BLE001  # surfaces where somebody waits
                    work.error = error
            elif errors:
                work.error = errors[0]
        if self.error is not None:
            raise self.error


class LazyEvent(Event):
    """The end of some work."""

    __slots__ = ("pool", "work")

    complete_when_made = False

    def __init__(self, pool, work):
        super().__init__()
        self.pool = pool
        self.work = work

    def again(self):
        return type(self)(self.pool, self.work)


class LazyPool(HostPool):
    """Host memory, in which nothing happens until somebody waits."""

    #: The class of its events.
    event = LazyEvent
    #: Its work is done by whoever waits, and its queue is nobody's to share.
    waits_apart = False

    def __init__(self, name):
        super().__init__(name, 1 << 30)
        self.queue = []
        self.dying_bytes = 0

    @property
    def free_bytes(self):
        return super().free_bytes + self.dying_bytes

    def queued(self, action, after, *, in_any_case=False):
        """Return the event of new work."""
        work = Work(action, after, in_any_case=in_any_case)
        self.queue.append(work)
        self.queue = [other for other in self.queue if other.action is not None]
        return self.event(self, work)

    def take(self, events):
        """Use events up; return their work."""
        for event in events:
            event.take()
        for event in events:
            if not isinstance(event, LazyEvent) or event.pool is not self:
                raise InvalidEventError(f"pool {self.name} was given an event of another pool")
        return [event.work for event in events]

    def depends_on(self, events):
        """Use events up; return what work that is given them has to wait for."""
        return self.take(events)

    def allocate(self, nbytes):
        buffer, event = super().allocate(nbytes)
        event.take()
        return buffer, self.queued(lambda: buffer.array.fill(_POISON), [])

    def deallocate(self, buffer, events=()):
        after = [work for work in self.take(events) if work.action is not None]
        self.own(buffer)
        if after:
            self.dying_bytes += buffer.nbytes
            self.queued(lambda: self.lose(buffer), after, in_any_case=True)
        else:
            buffer.array.fill(_POISON)
            super().deallocate(buffer)

    def lose(self, buffer):
        """Give back a buffer whose work is done by now."""
        self.dying_bytes -= buffer.nbytes
        buffer.array.fill(_POISON)
        super().deallocate(buffer)

    def host_to_pool(self, source, target, events=()):
        after = self.depends_on(events)
        self.check_buffer(target, source.nbytes)
        copy = HostPool.host_to_pool
        return self.queued(lambda: copy(self, source, target), after)

    def pool_to_host(self, source, target, events=(), offset=0):
        for work in self.depends_on(events):
            work.finish()
        super().pool_to_host(source, target, (), offset)

    def pool_to_pool(self, source, target, events=(), target_events=()):
        after = self.depends_on(target_events)
        source.pool.sync_events(events)
        self.own(target, source.nbytes)
        copy = HostPool.pool_to_pool
        return self.queued(lambda: copy(self, source, target), after)

    def completed(self):
        return self.event(self, Work(None, []))

    def sync_events(self, events):
        for work in self.take(events):
            work.finish()

    def release_events(self, events):
        self.take(events)

    def synchronize(self):
        queue, self.queue = self.queue, []
        for work in reversed(queue):
            work.finish()

    def close(self):
        self.synchronize()
        super().close()


class LazyDevice(InterpreterDevice):
    """The interpreter, on a lazy pool."""

    def __init__(self, name, pool):
        super().__init__(name, pool)
        self.at_once = InterpreterDevice(name, pool)

    def launch(self, program, args, events=()):
        pool = self.memory_pool
        after = pool.depends_on(events)
        filled = list(args)
        return pool.queued(lambda: self.at_once.launch(program, filled), after)
