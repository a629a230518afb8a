"""Switches: where what is set holds."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import zyx
from zyx import modes

SWITCHES = [(modes.is_grad_enabled, zyx.set_grad_enabled, True), (modes.implicit_casts, modes.set_implicit_casts, True)]
both = pytest.mark.parametrize(("read", "put", "start"), SWITCHES)


@pytest.fixture(autouse=True)
def put_back():
    yield
    zyx.set_grad_enabled(True)
    modes.set_implicit_casts(True)


@both
def test_a_statement_holds_in_all_threads_those_of_pools_as_well(read, put, start):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(read).result(60) is start
        put(not start)
        assert (read(), pool.submit(read).result(60)) == (not start, not start)
        pool.submit(put, start).result(60)
        assert (read(), pool.submit(read).result(60)) == (start, start)


@both
def test_a_block_is_of_its_thread_alone_and_is_undone(read, put, start):
    with ThreadPoolExecutor(1) as pool:
        undo = put(not start)
        assert (read(), pool.submit(read).result(60)) == (not start, start)  # perhaps a block begins
        with undo:
            assert (read(), pool.submit(read).result(60)) == (not start, start)
        del undo
        assert (read(), pool.submit(read).result(60)) == (start, start)


@both
def test_what_is_set_inside_of_a_block_ends_with_it(read, put, start):
    with ThreadPoolExecutor(1) as pool:
        with put(start):
            put(not start)
            assert (read(), pool.submit(read).result(60)) == (not start, start)
        assert (read(), pool.submit(read).result(60)) == (start, start)


@both
def test_a_block_is_not_changed_by_what_is_said_elsewhere(read, put, start):
    with ThreadPoolExecutor(1) as pool:
        with put(start):
            pool.submit(put, not start).result(60)
            assert (read(), pool.submit(read).result(60)) == (start, not start)
        assert read() is (not start)


@both
def test_what_an_interactive_session_shows_holds_in_all_threads(read, put, start):
    shown = put(not start)
    assert str(not start) in repr(shown)
    found = []
    thread = threading.Thread(target=lambda: found.append(read()))
    thread.start()
    thread.join()
    assert found == [not start]


@both
def test_tasks_do_not_disturb_each_other(read, put, start):
    async def one() -> bool:
        with put(not start):
            await asyncio.sleep(0)
            return read()

    async def other() -> bool:
        await asyncio.sleep(0)
        return read()

    async def together() -> list[bool]:
        return list(await asyncio.gather(one(), other()))

    assert asyncio.run(together()) == [not start, start]
