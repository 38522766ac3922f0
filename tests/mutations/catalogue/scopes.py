"""Mutations of what a night answers for: whose archive, which day, how much of it."""

from typing import Final

from tests.mutations.mutation import Change, Mutation

_AUDIT: Final = "compaction/audit/audit.py"
_REWRITE: Final = "compaction/rewrite.py"
_REQUEST: Final = "compaction/job/request.py"
_SCOPE: Final = "compaction/job/scope.py"
_OWNER: Final = "compaction/inventory/owner.py"
_SEEN: Final = "compaction/shards/seen.py"
_NEIGHBOURS: Final = "compaction/inventory/neighbours.py"
_CONCLUSION: Final = "compaction/audit/conclusion.py"
_VERDICT: Final = "archive/coverage/verdict.py"
_EXPIRE_COVERAGE: Final = "tests/unit/consumer/expire/test_coverage.py"
_TOMBSTONES: Final = "compaction/inventory/tombstones.py"
_MARKERS: Final = "compaction/inventory/shard_markers.py"
_CHAINS: Final = "compaction/rules/chains.py"
_PASSES: Final = "compaction/audit/passes.py"
_GATHERED: Final = "archive/proof/gathered.py"
_CHAIN_ENDS: Final = "consumer/archived/chain_ends.py"
_SIDE_OBJECTS: Final = "consumer/expire/side_objects.py"
_EXPIRE_COMMAND: Final = "consumer/expire/command.py"
_DAMAGED: Final = "tests/unit/compaction/audit/test_damaged_tombstones.py"
_RESTORE_DAMAGED: Final = "tests/unit/consumer/restore/test_damaged_tombstones.py"
_STATEMENTS: Final = "tests/unit/archive/proof/test_statements.py"
_EXPIRE_DAMAGED: Final = "tests/unit/consumer/expire/test_damaged_tombstones.py"
_EXPIRE_PLAN: Final = "consumer/expire/plan.py"

_AUDITED: Final = "tests/unit/compaction/audit/test_scope.py"
_REQUESTED: Final = "tests/unit/compaction/job/test_request.py"
_RULES: Final = "tests/unit/compaction/job/test_scope.py"
_AN_HOUR: Final = "tests/unit/compaction/hours/test_an_hour.py"
_SO_FAR: Final = "tests/unit/compaction/publish/test_so_far.py"
_REFUSALS: Final = "tests/unit/consumer/expire/test_refusals.py"

SCOPES: Final = (
    Mutation(
        "judge days that have not begun",
        Change(_REQUEST, "if days[-1].number > today.number:", "if days[-1].number < 0:"),
        tests=(f"{_REQUESTED}::test_a_day_in_the_future_is_refused",),
    ),
    Mutation(
        "judge days before the archive began",
        Change(
            _SCOPE,
            "day_scope(day, from_ms, now_ms, so_far_ms=until_ms)",
            "day_scope(day, 0, now_ms, so_far_ms=until_ms)",
        ),
        tests=(
            f"{_AUDITED}::test_a_day_before_the_archive_begins_is_refused",
            f"{_SO_FAR}::test_a_day_before_the_archive_begins_is_not_published",
            f"{_RULES}::test_a_day_before_the_application_is_refused",
        ),
    ),
    Mutation(
        "let a day begin before the application does",
        Change(_VERDICT, "max(day.begin_ms, begin_ms), day.end_ms", "day.begin_ms, day.end_ms"),
        tests=(
            f"{_AUDITED}::test_a_day_before_the_archive_begins_is_refused",
            f"{_AUDITED}::test_the_day_of_the_start_begins_there",
            f"{_EXPIRE_COVERAGE}::test_a_day_that_ended_before_the_archive_begins_stays",
        ),
    ),
    Mutation(
        "judge a day that lies ahead",
        Change(_SCOPE, "if period.begin_ms > now_ms:", "if period is None:"),
        tests=(f"{_RULES}::test_a_day_in_the_future_is_refused",),
    ),
    Mutation(
        "call today clean",
        Change(_CONCLUSION, 'id="day_is_over", status="unknown"', 'id="day_is_over", status="warning"'),
        tests=(f"{_AUDITED}::test_a_day_that_is_not_settled_is_unknown",),
    ),
    Mutation(
        "publish a day that has just ended",
        Change(
            _REWRITE,
            "if (until_ms is None or hour is not None) and not is_settled(hour or day, now_ms):",
            "if until_ms is None and now_ms < 0:",
        ),
        tests=(
            f"{_SO_FAR}::test_a_day_that_is_not_settled_is_held",
            f"{_AN_HOUR}::test_an_hour_that_is_not_settled_is_held",
        ),
    ),
    Mutation(
        "take a day so far for the whole day",
        Change(
            _REWRITE,
            "(pointer.generation, pointer.until) == (view.generation, self._until)",
            "pointer.generation == view.generation",
        ),
        tests=(f"{_SO_FAR}::test_the_whole_day_follows_the_day_so_far",),
    ),
    Mutation(
        "expire a day that was published so far",
        Change(_EXPIRE_PLAN, "published.until is not None", "published.until is published"),
        tests=(f"{_REFUSALS}::test_a_day_that_was_published_so_far_is_refused",),
    ),
    Mutation(
        "judge what lies behind the end of the scope",
        Change(_SEEN, "row.parsed is not None and row.parsed.minute < end", "row.parsed is not None"),
        tests=(f"{_AUDITED}::test_what_is_wrong_behind_the_end_of_the_scope_is_not_judged",),
    ),
    Mutation(
        "forget the rest of a day so far",
        Change(_NEIGHBOURS, "behind.add(later)", "behind.add(())"),
        tests=(f"{_AUDITED}::test_a_day_so_far_is_judged_up_to_its_end",),
    ),
    Mutation(
        "audit another stream's archive",
        Change(_OWNER, "if named is None or not _is_same(named, owner):", "if named is None:"),
        tests=(
            f"{_AUDITED}::test_another_streams_archive_is_refused",
            f"{_SO_FAR}::test_another_streams_archive_is_not_published",
        ),
    ),
    Mutation(
        "ask for the stream's name alone",
        Change(_OWNER, "(named.name, named.region) == (owner.name, owner.region)", "named.name == owner.name"),
        tests=(f"{_AUDITED}::test_another_streams_archive_is_refused",),
    ),
    Mutation(
        "pass over the account",
        Change(_OWNER, ' and owner.account in {"", named.account}', ""),
        tests=(f"{_AUDITED}::test_another_streams_archive_is_refused",),
    ),
    Mutation(
        "judge an expired day by what is left of it",
        Change(_AUDIT, "if is_expired(context.archive, prefix, day):", "if until_ms == day:"),
        tests=(f"{_AUDITED}::test_an_expired_day_is_unknown_and_nothing_else",),
    ),
    Mutation(
        "stop at a tombstone that cannot be read",
        Change(
            _TOMBSTONES,
            "    except FormatError as exc:\n        return exc\n",
            "    except KeyError as exc:\n        raise exc\n",
        ),
        tests=(
            f"{_DAMAGED}::test_the_day_itself_is_never_clean",
            f"{_DAMAGED}::test_a_day_that_does_not_need_it_is_judged",
        ),
    ),
    Mutation(
        "pass over a tombstone that cannot be read",
        Change(_MARKERS, "findings = tuple(_finding(problem) for problem in statements.problems)", "findings = ()"),
        tests=(f"{_DAMAGED}::test_a_day_that_does_not_need_it_is_judged",),
    ),
    Mutation(
        "call lost what a tombstone that cannot be read may name",
        Change(_GATHERED, "in self._statements.unread_days\n", "in self._statements.unread_days[:0]\n"),
        tests=(f"{_STATEMENTS}::test_what_a_tombstone_that_cannot_be_read_may_name_is_not_lost",),
    ),
    Mutation(
        "break a chain over a tombstone that cannot be read",
        Change(_PASSES, "unread=evidence.expired.unread,", "unread=(),"),
        tests=(f"{_DAMAGED}::test_a_day_that_stands_on_it_is_unknown",),
    ),
    Mutation(
        "expire a day without being able to read what must stay",
        Change(_EXPIRE_COMMAND, "plan if damage is None else plan._replace(refusal=damage)", "plan"),
        tests=(f"{_EXPIRE_DAMAGED}::test_a_day_whose_tombstone_cannot_be_read_stays",),
    ),
    Mutation(
        "stop expire at a tombstone that cannot be read",
        Change(
            _EXPIRE_COMMAND,
            "        except FormatError as exc:\n",
            "        except KeyError as exc:\n            raise exc\n        except ZeroDivisionError as exc:\n",
        ),
        tests=(f"{_EXPIRE_DAMAGED}::test_other_days_are_expired_all_the_same",),
    ),
    Mutation(
        "delete beside a day whose tombstone cannot be read",
        Change(
            _SIDE_OBJECTS,
            "        except FormatError:\n            return\n",
            "        except FormatError:\n            pass\n",
        ),
        tests=(f"{_EXPIRE_DAMAGED}::test_nothing_goes_beside_a_day_whose_tombstone_cannot_be_read",),
    ),
    Mutation(
        "go back before what a tombstone that cannot be read may name",
        Change(_CHAIN_ENDS, "if not is_expired and not damaged:", "if not is_expired:"),
        tests=(f"{_RESTORE_DAMAGED}::test_a_shard_goes_on_after_its_tail_and_the_tombstone_is_named",),
    ),
)
