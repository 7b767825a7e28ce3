"""Each rule of docs/consistency.md switched off, one at a time: the simulation must find out (`catch.py`).

Not among them, because something else also holds what they hold:
* the generation of a node: the DDL statement is in the ring, too, and all fills end where history begins anew. Both
  together are `ddl_forgotten_by_fills`.
* the ring forgets where a statement has no GTID: the generation of the nodes says the same.
* what is held ahead of the position is not compared: the engine holds no answer of a reader that is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dataflow.fills.fill
import dataflow.held.arrangement
import dataflow.operators.aggregate
import dataflow.readers.eviction
import dataflow.readers.reader
from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.fills.fill import Fill
from dataflow.fills.inserting import Inserting
from dataflow.fills.insertion import Insertion
from dataflow.fills.source_history import SourceHistory
from dataflow.fills.state import State
from dataflow.fills.waiting_reads import Reads
from dataflow.held.arrangement import Arrangement
from dataflow.messages import Ddl
from dataflow.operators.aggregate import AggregateNode
from dataflow.operators.answer import AnswerNode
from dataflow.operators.rows import RowsNode
from dataflow.operators.topk import TopKNode
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from gtid_tracker.tracker import Cut
from proxy.checking.comparison import Comparer
from proxy.checking.ddl_excuses import Suspicions
from proxy.read.held_answers import HeldAnswers
from proxy.read.open_cache import OpenCache
from proxy.read.together import Several
from tests.simulation.bulk import Bulk
from tests.simulation.flights import NOTHING, Asked
from tests.simulation.mutant import Mutant, all_of, always, attribute, edit, nothing
from tests.simulation.mutants_large import LARGE_CHANGES, TOUCHING
from tests.simulation.mutants_reaching import REACHING
from tests.simulation.mutants_restarts import RESTARTS
from tests.simulation.mutants_sharded_trials import SHARDED_TRIALS
from tests.simulation.mutants_shards import SHARDS
from tests.simulation.mutants_spellings import SPELLINGS
from tests.simulation.mutants_steps import STEPS
from tests.simulation.mutants_telling import TELLING
from tests.simulation.simulation import Simulation
from tests.simulation.trials import Trials

images_of = AnswerNode._images


def after_images_only(watch: Any, pairs: Any) -> Any:
    return images_of(watch, [(None, after) for _, after in pairs])


def insert_all_that_wait(self: Inserting) -> list[Any]:
    effects: list[Any] = []
    for fill in self._waits:
        effects += self._place(fill, self._state.insertion(fill)) if not fill.ahead else ()
    return effects


insert_ahead = Inserting._insert_ahead


def forgetting_the_cut(self: Inserting, fill: Fill) -> None:
    insert_ahead(self, fill)
    if fill.ahead:
        fill.promote()


def unsettled(self: Fill, large: bool) -> Iterator[None]:
    """Keys that the rows lead to only after they were brought forward count as known to be empty."""
    yield
    for params in self.whole.values():
        self.reader.derive(params, self.overlay)


MUTANTS = (
    # the bracket
    Mutant(
        "bracket", "what the snapshot may have seen is in doubt", edit(Fill, "bring_forward", ("list(uncertain)", "[]"))
    ),
    Mutant(
        "bracket",
        "what was owned may have been seen",
        edit(Bracket, "__init__", ("executed.union(owned).difference(lower)", "executed.difference(lower)")),
    ),
    Mutant(
        "bracket",
        "what was executed after the snapshot may have been seen",
        edit(Bracket, "__init__", ("executed.union(owned).difference(lower)", "owned.difference(lower)")),
    ),
    Mutant(
        "bracket",
        "owned is read before executed",
        attribute(Simulation, "moments", ("lower", "snapshot", "executed", "owned")),
    ),
    Mutant(
        "bracket",
        "the lower bound is read before the snapshot",
        attribute(Simulation, "moments", ("snapshot", "lower", "owned", "executed")),
    ),
    Mutant("bracket", "all statements of a fill share one snapshot", attribute(Simulation, "one_snapshot", False)),
    Mutant(
        "bracket",
        "an answer waits for the position",
        attribute(PositionWaits, "add", lambda self, needed, position, waiter, owned: False),
    ),
    Mutant(
        "bracket",
        "an answer waits for what is in doubt, too",
        edit(Inserting, "add", ("bracket.needed", "bracket.lower")),
    ),
    Mutant("bracket", "a timeout resolves nothing", attribute(Inserting, "drop_overdue", insert_all_that_wait)),
    Mutant(
        "bracket",
        "only a later reading tells of a rollback",
        edit(Inserting, "clear_rolled_back", (" or current.sent <= fill.answered", "")),
    ),
    Mutant(
        "bracket",
        "what a restart has lost was not rolled back",
        edit(Inserting, "clear_rolled_back", ("answer.connected_at >= fill.sent_at", "False")),
        script="lost_transaction_taken_for_rolled_back",
    ),
    Mutant(
        "bracket",
        "what is executed was not rolled back",
        edit(PositionWaits, "rolled_back", ("gtid in executed", "False")),
    ),
    Mutant(
        "bracket",
        "what is owned beside the locks may have been seen",
        attribute(
            Bracket, "exact", lambda server, before, owned, executed: Bracket(server, executed, NOTHING, executed)
        ),
    ),
    # the ring
    Mutant("ring", "what was received and not seen is applied", attribute(Ring, "after", lambda self, lower: [])),
    Mutant(
        "ring",
        "what was seen is not applied again",
        attribute(Ring, "after", lambda self, lower: [record for _, _, record, _ in self._records.values()]),
    ),
    Mutant(
        "ring",
        "in the order received",
        edit(Ring, "after", ("found.sort(key=lambda held: held[0])", "found.reverse()")),
    ),
    Mutant("ring", "it must reach back to the snapshot", attribute(Ring, "admits", lambda self, lower: True)),
    Mutant("ring", "it is emptied for a new column", edit(State, "install", ("self._forget_ring()", "pass"))),
    # insertion
    Mutant(
        "insertion",
        "a key that is held meanwhile is kept",
        edit(Insertion, "_place", ("if key not in node.entries and ", "if ")),
    ),
    Mutant(
        "insertion",
        "an answer that a change touched is not stored",
        edit(AnswerNode, "apply", ("if not entries:", "if not entries or entries is not self.entries:")),
    ),
    Mutant(
        "insertion",
        "a group without rows does not exist",
        edit(AggregateNode, "_subtract", ("if state[COUNT_STAR] <= 0:", "if False:")),
    ),
    Mutant(
        "insertion",
        "a sum over nothing is NULL",
        edit(dataflow.operators.aggregate, "result", ("None if state[slot + 1] == 0 else ", "")),
    ),
    Mutant(
        "insertion",
        "an extreme that goes makes a hole",
        edit(
            AggregateNode, "_subtract", ("if program.subtract(state, row):", "if program.subtract(state, row) or True:")
        ),
    ),
    Mutant(
        "insertion",
        "top-k is a hole where rows are short",
        edit(TopKNode, "_remove", ("len(top.rows) < self._limit", "False")),
    ),
    Mutant(
        "insertion",
        "top-k takes nothing behind its tail",
        edit(TopKNode, "_add", ("if not top.complete and (not top.keys or sort_key > top.keys[-1]):", "if False:")),
    ),
    # ahead of the position
    Mutant(
        "ahead",
        "what the snapshot saw is passed over",
        edit(Cut, "fate", ("Fate.TAGGED if gtid in self.lower else Fate.APPLIED", "Fate.APPLIED")),
    ),
    Mutant(
        "ahead", "what it may have seen makes a hole when it comes", edit(Cut, "fate", ("or gtid in self.doubt", ""))
    ),
    Mutant(
        "ahead",
        "doubt is no part of the cut",
        edit(
            Cut,
            "fate",
            (
                "return Fate.TAGGED if gtid in self.lower",
                "return Fate.TAGGED if gtid in self.lower or gtid in self.doubt",
            ),
            ("gtid is None or gtid in self.doubt", "gtid is None"),
        ),
    ),
    Mutant("ahead", "what comes is applied", edit(Cut, "fate", ("if gtid in self.lower else Fate.APPLIED", ""))),
    Mutant(
        "ahead",
        "an entry ahead is a hole to lists and subscribers",
        edit(
            ReaderNode,
            "derive",
            ("entry = levels[0].get(key)", "entry = levels[0].get(key) or self.nodes[0].ahead.get(key)"),
        ),
    ),
    Mutant(
        "ahead",
        "an entry ahead is a hole to joins",
        edit(
            dataflow.readers.reader,
            "expand",
            ("entry = entry_of(key)", "entry = entry_of(key) or level.node.ahead.get(key)"),
        ),
    ),
    Mutant(
        "ahead", "the cut is kept", attribute(Arrangement, "insert_ahead", lambda self, entry, cut: self.insert(entry))
    ),
    Mutant(
        "ahead",
        "the cut is kept until the position contains it",
        attribute(Inserting, "_insert_ahead", forgetting_the_cut),
    ),
    Mutant(
        "ahead",
        "an entry that is evicted is not held when its cut is reached",
        edit(
            Arrangement,
            "promote",
            ("if self.ahead.get(entry.key) is entry:", "if True:"),
            ("del self.ahead[entry.key]", "self.ahead.pop(entry.key, None)"),
        ),
    ),
    Mutant(
        "ahead",
        "the snapshot had all of the position",
        edit(State, "may_stand_ahead", ("self.ring.position.freeze().issubset(fill.bracket.lower)", "True")),
    ),
    Mutant(
        "ahead",
        "a change reaches what is held ahead",
        edit(State, "_process_ahead", ("if node.ahead and change.table in node.tables:", "if False:")),
    ),
    # joins
    Mutant(
        "joins",
        "an answer is forgotten when an entry changes",
        attribute(dataflow.operators.rows, "touch", nothing),
    ),
    Mutant(
        "joins",
        "an answer is linked to its entries",
        all_of(
            attribute(dataflow.readers.reader, "relink", nothing),
            attribute(dataflow.readers.eviction, "relink", nothing),
        ),
    ),
    Mutant("joins", "a semi-join covers what it was asked", attribute(Fill, "_settle", unsettled)),
    Mutant("joins", "a key is held only if all it leads to is", edit(Arrangement, "discard", ("touch(entry)", "pass"))),
    # never stale
    Mutant(
        "never stale",
        "a change empties the answers it touches",
        edit(AnswerNode, "apply", ("if not entries:", "if not entries or entries is self.entries:")),
    ),
    Mutant(
        "never stale",
        "the before image counts (answers)",
        attribute(AnswerNode, "_images", staticmethod(after_images_only)),
    ),
    Mutant(
        "never stale",
        "the before image counts (rows)",
        edit(RowsNode, "change", ("self._put(entries, old, self._narrow(before), None)", "pass")),
    ),
    Mutant("never stale", "memory is bounded", edit(Engine, "between", ("self.limit.keep()", "pass"))),
    # what a read may be told
    Mutant(
        "reads",
        "a list is answered whole",
        edit(
            HeldAnswers,
            "_looked",
            ("return found\n            parts.append", "continue\n            parts.append"),
        ),
    ),
    Mutant(
        "reads",
        "the keys of a list are of one version",
        edit(
            Fill,
            "derive",
            ("if key not in self.whole:", "if key in self.partial:"),
            ("for _, params in keys:", "for key, params in keys:"),
            (
                "derive(params, self.overlay",
                "derive(params, self.overlay if key in self.whole else self.reader.held_levels",
            ),
        ),
    ),
    Mutant(
        "reads",
        "an answer is not mixed with what is held",
        edit(
            Fill,
            "derive",
            ("if key not in self.whole:", "if key not in self.keys:"),
            (
                "derive(params, self.overlay",
                "derive(params, [{**a, **b} for a, b in zip(self.reader.held_levels, self.overlay)]",
            ),
        ),
    ),
    Mutant(
        "reads",
        "nothing is told older than the position at its start",
        edit(Reads, "tell", ("not read.since.issubset(fill.bracket.lower)", "False")),
    ),
    Mutant("reads", "who asks for GTIDs is told them (upqueries)", attribute(Asked, "met_by", always)),
    Mutant("reads", "who asks for GTIDs is told them (the position)", attribute(Asked, "met", always)),
    # all else
    Mutant(
        "events",
        "a transaction that comes again is ignored",
        edit(Engine, "on_stream", ("gtid is not None and gtid in position", "False")),
    ),
    Mutant(
        "events",
        "a DDL statement empties what is held",
        edit(State, "_process", ("if event.concerns(node.tables):", "if False:")),
    ),
    Mutant(
        "events",
        "so do rows that are not read",
        edit(
            State, "_process", ("if event.concerns(node.tables):", "if event.schema and event.concerns(node.tables):")
        ),
    ),
    Mutant(
        "events",
        "answers from before a DDL statement are not stored",
        all_of(
            edit(dataflow.fills.fill, "replay", ("if record.concerns(node.tables):", "if False:")),
            edit(dataflow.fills.fill, "drop_touched", ("not record.concerns(node.tables)", "True")),
            edit(Fill, "bring_forward", ("if generation != node.generation or later is None:", "if later is None:")),
        ),
    ),
    Mutant("events", "a DDL statement concerns its tables", attribute(Ddl, "concerns", lambda self, tables: False)),
    Mutant(
        "events",
        "another server is another history",
        edit(SourceHistory, "contradiction", ("if self.history and server != self.history:", "if False:")),
    ),
    Mutant(
        "events",
        "a server that has lost transactions is another history",
        edit(
            SourceHistory,
            "contradiction",
            ("not lower.issubset(bracket.executed) or (floor is not None and not floor.issubset(lower))", "False"),
        ),
    ),
    Mutant(
        "events",
        "an older reading that comes later is not the newest",
        edit(
            SourceHistory,
            "contradiction",
            ("newest is None or (newest is not bracket.executed and newest.issubset(bracket.executed))", "True"),
        ),
    ),
    Mutant(
        "events",
        "after lost history all is a hole",
        edit(State, "clear", ("reader.clear()", "pass"), ("node.clear()", "pass")),
    ),
    Mutant(
        "events",
        "what is let go takes the answers above with it",
        edit(Arrangement, "let_go", ("reader.let_go()", "pass")),
    ),
    Mutant(
        "reads",
        "what is kept of several keys goes with a change of one",
        edit(Several, "find", ("held is None or held.version != version", "held is None")),
    ),
    Mutant(
        "reads",
        "what is kept of several keys goes with one of them",
        edit(
            Several,
            "find",
            ("held is None or held.version != version", "held is not None and held.version != version"),
            ("held.visited = True", "pass"),
        ),
    ),
    Mutant("reads", "a changed key is listed no more", attribute(Held, "unlist", lambda self: None)),
    Mutant(
        "events",
        "what is let go is listed no more",
        edit(ReaderNode, "let_go", ("rows.clear()", "pass")),
    ),
    Mutant(
        "events",
        "what was let go is not what came since",
        edit(ReaderNode, "drop", ("self.entries.get(held.key) is held", "self.entries.get(held.key)")),
    ),
    Mutant(
        "events",
        "after lost history upqueries are sent again",
        edit(Engine, "_ask_again", ("list(self.fills.by_number.values())", "()")),
    ),
    # what has not changed since an earlier position
    Mutant(
        "since",
        "a change counts",
        all_of(*(edit(module, "touch", ("entry.since = ", "now = ")) for module in TOUCHING)),
    ),
    Mutant("since", "an entry is new", edit(Arrangement, "insert", ("entry.since = ", "now = "))),
    Mutant("since", "an entry ahead was elsewhere before", edit(Arrangement, "promote", ("entry.since = ", "now = "))),
    Mutant("since", "all that a join is derived from counts", edit(ReaderNode, "since", ("max(", "min("))),
    # trust: where one of these is missing, nothing wrong is found to be
    Mutant(
        "trust",
        "what MySQL is asked for has the position of the beginning",
        edit(Comparer, "_on_told", (" or not comparison.position.issubset(bracket.lower)", "")),
    ),
    Mutant("trust", "the position has what MySQL saw", edit(Comparer, "_look_again", ("if missing:", "if False:"))),
    Mutant(
        "trust",
        "nothing has touched what is compared",
        edit(Comparer, "_look_again", ("if not comparison.untouched:", "if False:")),
    ),
    Mutant("trust", "the client's text runs in the snapshot", attribute(Trials, "own_in_snapshot", False)),
    Mutant(
        "trust",
        "a difference waits for what MySQL has executed",
        edit(Suspicions, "_look", ("if missing:", "if False:")),
    ),
    Mutant(
        "trust",
        "a DDL statement explains a difference",
        edit(Suspicions, "on_stream", ("isinstance(event, Ddl) and concerns(event, suspicion.names)", "False")),
    ),
    Mutant(
        "trust",
        "a server that was started anew explains a difference",
        attribute(Suspicions, "_restarted", lambda self, suspicion, answer: False),
        script="view_lost_with_its_server",
    ),
    Mutant(
        "trust",
        "nothing is compared over lost history",
        edit(
            Comparer,
            "on_stream",
            ("isinstance(event, Ddl | Gap | Restarted)", "isinstance(event, Ddl)"),
            ("elif event.gtid ==", "elif isinstance(event, Gap | Restarted) or event.gtid =="),
        ),
        script="answer_of_no_keys_after_lost_history",
    ),
    Mutant(
        "trust",
        "a difference ends the subscriptions that wait",
        edit(Reads, "give_up", ("self._subscriptions.end(read.waiter, told)", "()")),
        script="difference_ends_a_waiting_subscription",
    ),
    Mutant("since", "every key of a list counts", edit(OpenCache, "peek_since", (".keys:", ".keys[:1]:"))),
    Mutant(
        "refused",
        "an error goes to the reads of all keys of its upquery",
        edit(Engine, "on_failed", ("or read.covers(fill.keys)", "or True")),
    ),
    Mutant("large fills", "each slice has a bracket of its own", attribute(Bulk, "bracket", Bulk.first_bracket)),
    *LARGE_CHANGES,
    *REACHING,
    *TELLING,
    *RESTARTS,
    *SHARDS,
    *SHARDED_TRIALS,
    *SPELLINGS,
    *STEPS,
)
