"""Requests answered side by side, beside each by itself."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import zyx
from zyx.errors import AllocationError, IndexRangeError, InvalidArgumentError, ShapeError
from zyx.runtime.runtime import current
from zyx_llm import Sampling, load
from zyx_llm.model import PAGE, Cache
from zyx_llm.serving import BatchEngine, Request, ServerFullError

sys.path.insert(0, str(Path(__file__).parent))

import networks


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(networks.save(tmp_path_factory.mktemp("model") / "small.gguf"))


@pytest.fixture(scope="module")
def engine(model):
    made = BatchEngine(model.network, model.tokenizer.special.ends, pages=200, rows=8)
    yield made
    made.close()


def alone(model, prompt, limit, sampling=None):
    """Return what a session writes up to an end."""
    found = []
    for token in model.session(sampling).generate(prompt, limit):
        if token in model.tokenizer.special.ends:
            break
        found.append(token)
    return found


def together(engine, requests):
    tickets = [engine.submit(request) for request in requests]
    return [[written.token for written in ticket] for ticket in tickets]


def prompts(count, seed=0, longest=90):
    random = np.random.default_rng(seed)
    return [tuple(map(int, random.integers(3, 250, random.integers(1, longest)))) for _ in range(count)]


def test_greedy_answers_of_many_are_those_of_each_alone(model, engine):
    given = prompts(32)
    found = together(engine, [Request(prompt, 5 + 3 * (row % 9)) for row, prompt in enumerate(given)])
    assert found == [alone(model, prompt, 5 + 3 * (row % 9)) for row, prompt in enumerate(given)]
    assert any(len(each) > 20 for each in found)


@pytest.mark.parametrize(
    "samplings",
    [
        [Sampling(1.5, 20, seed=3), Sampling(0.7, 5, 0.8, seed=4), Sampling(), Sampling(2.0, 64, min_p=0.1, seed=5)],
        [Sampling(1.0, seed=6), Sampling(1.3, top_p=0.9, seed=7), Sampling(repetition_penalty=5.0), Sampling(3.0, 1)],
        [Sampling(repetition_penalty=3.0), Sampling(1.0, repetition_penalty=2.0, seed=9)],
    ],
    ids=["of few", "of all", "with penalties"],
)
def test_each_row_is_drawn_by_its_own_sampling(model, engine, samplings):
    given = prompts(len(samplings), seed=1)
    found = together(engine, [Request(*each) for each in zip(given, [15] * len(given), samplings, strict=True)])
    assert found == [alone(model, prompt, 15, each) for prompt, each in zip(given, samplings, strict=True)]


class Only:
    """Allows some tokens, in their order."""

    def __init__(self, vocabulary, *tokens):
        self.vocabulary, self.tokens, self.taken = vocabulary, tokens, []

    def allowed(self):
        return np.arange(self.vocabulary) == self.tokens[len(self.taken)]

    def take(self, token):
        self.taken.append(token)


def test_a_constraint_says_what_comes_and_the_end_ends_it(model, engine):
    end = min(model.tokenizer.special.ends)
    vocabulary = model.network.config.vocabulary
    constraint = Only(vocabulary, 40, 41, 42, end)
    tickets = [engine.submit(Request((5, 6), 9, constraint=constraint)), engine.submit(Request((5, 6), 9))]
    free = [written.token for written in tickets[1]]
    assert [written.token for written in tickets[0]] == [40, 41, 42] == constraint.taken
    assert tickets[0].reason == "stop"
    assert free == alone(model, (5, 6), 9)


def test_a_constraint_that_fails_hurts_its_own_request_alone(model, engine):
    class Broken(Only):
        def take(self, token):
            raise RuntimeError("no grammar")

    nothing = Only(model.network.config.vocabulary, -1)
    broken = Broken(model.network.config.vocabulary, 40, 41)
    tickets = [engine.submit(Request((5, 6), 9, constraint=each)) for each in (nothing, broken, None)]
    with pytest.raises(ShapeError, match="a constraint allows 0 tokens out of"):
        list(tickets[0])
    with pytest.raises(RuntimeError, match="no grammar"):
        list(tickets[1])
    assert [written.token for written in tickets[2]] == alone(model, (5, 6), 9)
    assert [ticket.reason for ticket in tickets[:2]] == [None, None]


def test_logprobs_are_those_of_the_whole_vocabulary(model, engine):
    prompt = (5, 6, 7)
    written = list(engine.submit(Request(prompt, 1)))
    cache = Cache(model.network.config, 1, 16, zyx.float32, model.network.device)
    given = zyx.Tensor(np.array([prompt], np.int32))
    logits = model.network.logits(model.network.hidden(given, zyx.Tensor(np.int32(0)), cache))[0, -1].numpy()
    expected = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    assert written[0].token == logits.argmax()
    assert written[0].logprob == pytest.approx(expected.max(), abs=1e-4)


def test_an_answer_ends_at_its_limit_and_where_the_context_does(model, engine):
    ticket = engine.submit(Request((5,) * 598, 20))
    found = [written.token for written in ticket]
    assert found == alone(model, (5,) * 598, 20)
    assert len(found) == 3
    assert ticket.reason == "length"
    assert list(ticket) == []
    ticket = engine.submit(Request((5, 6), 2))
    assert len(list(ticket)) == 2
    assert ticket.reason == "length"


def test_what_comes_last_gives_up_its_pages_and_goes_on_later(model):
    given = prompts(6, seed=4, longest=40)
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=9, rows=4)
    assert together(engine, [Request(each, 60) for each in given]) == [alone(model, each, 60) for each in given]
    numbers = engine.numbers()
    engine.close()
    assert numbers["requests put back"] >= 1
    assert (numbers["requests done"], numbers["requests failed"], numbers["pages used"]) == (6, 0, 0)


def test_prompts_that_begin_alike_share_pages(model):
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=40, rows=4)
    start = tuple(range(10, 10 + 3 * PAGE))
    given = [(*start, 7, 8), (*start, 9), (*start, *start[:PAGE], 5), start]
    found = [together(engine, [Request(given[0], 8)])[0], *together(engine, [Request(each, 8) for each in given[1:]])]
    assert found == [alone(model, each, 8) for each in given]
    numbers = engine.numbers()
    engine.close()
    assert numbers["tokens shared"] == (3 + 3 + 2) * PAGE  # the last token of a prompt is always read
    assert numbers["tokens read"] == sum(map(len, given)) - numbers["tokens shared"]


def test_nothing_is_traced_or_compiled_after_the_warm_up(model):
    engine = BatchEngine(model.network, (), pages=100, rows=4)
    engine.steps.warm()
    compiler = current().compiler
    before = engine.steps.traces, compiler.compiled
    random = np.random.default_rng(3)
    given = prompts(12, seed=5, longest=400)
    together(
        engine,
        [Request(each, int(random.integers(1, 40)), Sampling(1.0, 20 * (row % 3))) for row, each in enumerate(given)],
    )
    after = engine.steps.traces, compiler.compiled
    engine.close()
    assert after == before


def test_cancelled_requests_leave_nothing_behind(model):
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=30, rows=4, waiting=300)
    engine.steps.warm()
    random = np.random.default_rng(7)

    def some(count):
        tickets = []
        for prompt in prompts(count, seed=int(random.integers(1000)), longest=60):
            tickets.append(engine.submit(Request(prompt, int(random.integers(1, 12)))))
            if random.random() < 0.7:
                ticket = tickets[int(random.integers(len(tickets)))]
                if random.random() < 0.5:
                    next(iter(ticket), None)
                ticket.cancel()
                ticket.cancel()
        for ticket in tickets:
            list(ticket)
        reasons = {ticket.reason for ticket in tickets}
        tickets.clear()
        return reasons, held()

    def held():
        return sum(use.live_buffers for use in zyx.memory_stats().values())

    _, before = some(40)
    reasons, after = some(200)
    numbers = engine.numbers()
    engine.close()
    assert reasons >= {"cancelled", "length"}
    # Traces keep temporaries from the second time on that they run; a request that kept one would make it 200.
    assert after - before < 40
    assert (numbers["pages used"], numbers["pages free"]) == (0, 30)
    assert numbers["requests done"] + numbers["requests cancelled"] == 240
    assert numbers["requests running"] == numbers["requests waiting"] == numbers["requests failed"] == 0


def test_what_cannot_be_answered_is_refused_at_once(model):
    engine = BatchEngine(model.network, (), pages=4, rows=2, waiting=1)
    with pytest.raises(ShapeError, match=r"a prompt of 40 tokens and an answer of 26 take 5 pages of 16; there are 4"):
        engine.submit(Request((5,) * 40, 26))
    with pytest.raises(ShapeError, match="601 tokens are more than the context of 600"):
        engine.submit(Request((5,) * 601, 1))
    with pytest.raises(IndexRangeError, match="token 9999, at 1, is out of range"):
        engine.submit(Request((5, 9999), 1))
    for more, message in (((), "at least one token"), ((5,), "at least 1 token is written; the limit is 0")):
        with pytest.raises(InvalidArgumentError, match=message):
            Request(more, 0)
    engine.close()
    engine.close()
    with pytest.raises(ServerFullError, match="the engine is closed"):
        engine.submit(Request((5,), 1))
    for name in ("pages", "rows", "waiting"):
        with pytest.raises(InvalidArgumentError, match=f"{name} is at least 1, not 0"):
            BatchEngine(model.network, (), **{"pages": 1, name: 0})


def test_what_takes_all_pages_just_so_is_answered(model):
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=4, rows=2)
    given = [((5, 9) * 32, 1), ((9, 5) * 24, 17)]
    assert together(engine, [Request(*each) for each in given]) == [alone(model, *each) for each in given]
    engine.close()


def test_a_full_queue_refuses_and_closing_cancels(model):
    entered, leave = threading.Event(), threading.Event()

    class Slow(Only):
        def allowed(self):
            entered.set()
            leave.wait()
            return super().allowed()

    engine = BatchEngine(model.network, (), pages=9, rows=1, waiting=1)
    tickets = [engine.submit(Request((5,), 9, constraint=Slow(model.network.config.vocabulary, *range(20))))]
    entered.wait()
    tickets.append(engine.submit(Request((6,), 9)))
    with pytest.raises(ServerFullError, match="1 requests wait, of at most 1"):
        engine.submit(Request((7,), 9))
    closing = threading.Thread(target=engine.close)
    closing.start()
    leave.set()
    closing.join()
    assert len(list(tickets[0])) <= 9
    assert list(tickets[1]) == []
    assert [ticket.reason for ticket in tickets] == ["cancelled", "cancelled"]


def test_what_fails_in_a_step_is_raised_by_its_tickets_and_others_go_on(model, monkeypatch):
    engine = BatchEngine(model.network, (), pages=9, rows=2)

    def fail(*_):
        raise AllocationError("no room for 4096 bytes")

    with monkeypatch.context() as patched:
        patched.setattr(engine.steps, "forward", fail)
        ticket = engine.submit(Request((5,), 3))
        with pytest.raises(AllocationError, match="no room for 4096 bytes"):
            list(ticket)
    assert together(engine, [Request((5, 6), 4)]) == [alone(model, (5, 6), 4)]
    engine.close()
    assert engine.numbers()["requests failed"] == 1
    assert engine.numbers()["pages used"] == 0


def test_windows_are_those_of_a_session(tmp_path):
    model = load(networks.save(tmp_path / "windows.gguf", **{"llama.attention.sliding_window": 5}))
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=20, rows=2)
    given = [(5, 6, 7), tuple(range(3, 43))]
    assert together(engine, [Request(each, 20) for each in given]) == [alone(model, each, 20) for each in given]
    engine.close()


@pytest.mark.slow
def test_thirty_two_clients_of_the_real_model_get_what_each_gets_alone(smollm2):
    model = load(smollm2, dtype=zyx.float32, context=256)
    things = ["cat", "river", "poem", "ship", "garden", "clock", "piano", "train"]
    asked = [f"{words} a {thing}." for words in ("Describe", "Draw", "Sell", "Write a line about") for thing in things]
    given = [tuple(model.tokenizer.encode(model.talk([{"role": "user", "content": each}]))) for each in asked]
    engine = BatchEngine(model.network, model.tokenizer.special.ends, pages=300, rows=32)
    found = together(engine, [Request(each, 16) for each in given])
    engine.close()
    assert len(found) == 32
    assert found == [alone(model, each, 16) for each in given]
