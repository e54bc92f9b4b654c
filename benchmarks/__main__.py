"""`python -m benchmarks WHAT [--seconds N] [--json]`; `--help` lists what there is."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from benchmarks.box import costs
from benchmarks.control_plane import report as control_report
from benchmarks.control_plane import sections
from benchmarks.harness import machine_limits
from benchmarks.harness.report import frames_table, limits_table
from benchmarks.link import frames, rates
from benchmarks.product import footprint, structure
from benchmarks.storage import transcripts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure beside the machine's limits.")
    parser.add_argument("what", choices=(
        "acp", "frames", "link", "limits", "control", "transcripts", "cluster", "box", "console", "house", "peers",
        "weight"))
    parser.add_argument("--seconds", type=float, default=20.0, help="about how long to measure (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--rows", nargs="*", default=(), choices=tuple(sections.SECTIONS),
                        help="which rows of control (default: all)")
    parser.add_argument("--most", type=int, default=1_000_000,
                        help="how far the rows of control that grow go, how long the lists of console are, and how "
                             "many entries and sessions transcripts has, at most (default: %(default)s)")
    parser.add_argument("--peers", nargs="*", default=(), metavar="NAME",
                        help="which servers peers measures, by the names of its table (default: all that are here)")
    parser.add_argument("--rounds", type=int, default=3,
                        help="how often peers measures each server, one after the other, and cluster the takeover of "
                             "--orphans (default: %(default)s)")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="a page in which peers puts its table, between the markers that it has")
    parser.add_argument("--kills", type=int, default=100,
                        help="how often cluster kills a gateway (default: %(default)s)")
    parser.add_argument("--stops", type=int, default=10,
                        help="how often it stops one for longer than its lease lives (default: %(default)s)")
    parser.add_argument("--sources", type=int, default=200,
                        help="source files of the project that box builds (default: %(default)s)")
    parser.add_argument("--builds", type=int, default=5,
                        help="how often box builds it behind each kind of wall (default: %(default)s)")
    parser.add_argument("--files", type=int, default=100_000,
                        help="files of the workspace that box stages (default: %(default)s)")
    parser.add_argument("--rtt", type=float, nargs="+", metavar="MS",
                        help="of cluster: only what each operation waits for and how many are done in a second, over "
                             "links that take so long")
    parser.add_argument("--sessions", type=int, nargs="+", metavar="N",
                        help="of cluster with --rtt: let a gateway of a simulated cluster die under so many sessions; "
                             "10,000 take minutes")
    parser.add_argument("--orphans", type=int, metavar="N",
                        help="of cluster with --rtt: only how long it takes to take over this many sessions of a dead "
                             "gateway, --rounds times")
    parser.add_argument("--survivors", type=int, default=2, metavar="N",
                        help="how many gateways take over the --orphans (default: %(default)s)")
    asked = parser.parse_args()
    if asked.rtt is not None and (asked.what != "cluster" or min(asked.rtt) <= 0):
        parser.error("--rtt is of `cluster`, in milliseconds above 0")
    if asked.orphans is not None and asked.rtt is None:
        parser.error("--orphans needs --rtt")
    if asked.what == "frames":
        report = frames.run(asked.seconds)
        text = frames_table(report)
    elif asked.what == "link":
        report = rates.run(asked.seconds)
        text = rates.table(report)
    elif asked.what == "control":
        report = sections.run(control_report.Scale(asked.seconds, asked.most), asked.rows)
        text = control_report.table(report)
    elif asked.what == "transcripts":
        report = transcripts.run(asked.seconds, asked.most)
        text = transcripts.table(report)
    elif asked.what == "box":
        report = costs.run(asked.seconds, costs.Counts(asked.sources, asked.builds, asked.files))
        text = costs.table(report)
    elif asked.what == "acp":
        from benchmarks.acp_door import overhead  # It needs the ACP SDK.

        report = overhead.run(asked.seconds)
        text = overhead.table(report)
    elif asked.what == "console":
        from benchmarks.console import pages  # It needs a browser.

        report = pages.run(asked.most)
        text = pages.table(report)
    elif asked.what == "house":
        report = structure.run()
        text = structure.table(report)
    elif asked.what == "peers":
        from benchmarks.peers import comparison

        report = comparison.run(tuple(asked.peers), rounds=asked.rounds)
        text = comparison.table(report)
        if asked.page is not None:
            asked.page.write_text(comparison.shown_in(asked.page.read_text("utf-8"), report), "utf-8")
    elif asked.what == "weight":
        report = footprint.run()
        text = footprint.table(report)
    elif asked.what == "cluster" and asked.rtt is not None and asked.orphans is not None:
        from benchmarks.cluster import takeover

        report = takeover.run(asked.rtt, asked.orphans, asked.survivors, asked.rounds)
        text = takeover.table(report)
    elif asked.what == "cluster" and asked.rtt is not None:
        from benchmarks.cluster import round_trips

        report = round_trips.run(asked.rtt, sessions=asked.sessions or ())
        text = round_trips.table(report)
    elif asked.what == "cluster":
        from benchmarks.cluster import database_and_bus  # It needs what a single gateway does not.

        report = database_and_bus.run(asked.seconds, database_and_bus.RunSize(asked.kills, asked.stops))
        text = database_and_bus.table(report)
    else:
        report = machine_limits.run(asked.seconds)
        text = limits_table(report)
    print(msgspec.json.encode(report).decode() if asked.json else text)


if __name__ == "__main__":
    main()
