"""The commands of `assay`: for each, its module in this package, and one line for --help.

A module is imported only when its command is called, so that `assay --help` is fast.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a starter suite for this machine."),
    "doctor": ("doctor", "Check what is missing here, and show the command that fixes it."),
    "clean": ("clean", "Find and remove what killed or abandoned runs left behind."),
    "cluster": ("cluster", "Grant runs on Kubernetes or OpenShift the rights they need."),
    "plan": ("plan", "Show the trials of a suite and exactly what each would submit."),
    "run": ("run", "Run a suite and show progress; run it again to resume."),
    "queue": ("queue", "Run suites one after the other, whatever becomes of this terminal."),
    "top": ("top", "Show what is running now: nodes, GPUs and ranks, what is off first."),
    "monitor": ("monitor", "Serve metrics to Prometheus, with alert rules and dashboards."),
    "watch": ("watch", "Watch a running job: CPU, memory, disk, network and GPUs, live."),
    "sweep": ("sweep", "Find the slow nodes of a system, and the slow links between them."),
    "import": ("import_", "Import logs, spreadsheets, and runs made elsewhere."),
    "score": ("score", "Score MLPerf training logs by the rules of their round."),
    "submit": ("submit", "Prepare an MLPerf training submission from runs, and check it."),
    "list": ("list_", "List runs and imported sets."),
    "show": ("show", "Show one run: numbers, spread, doubts, provenance."),
    "diff": ("diff", "Show what differs between two runs' settings, machines and software."),
    "compare": ("compare", "Compare B with A: ratio, interval and verdict."),
    "gate": ("gate", "Check in CI, by exit code, that A is no worse than its baseline."),
    "history": ("history", "Show a metric over sessions, and where it stepped."),
    "scale": ("scale", "Show throughput, speed-up and efficiency over worker counts."),
    "goodput": ("goodput", "Show useful time, time between failures, and the best checkpoint interval."),
    "data": ("data", "Catalog labelled frames, and choose subsets by what is on them."),
    "stack": ("stack", "Show which software runs how fast where; write container files."),
    "explain": ("explain", "Explain what a doubt means and what to do about it."),
    "report": ("report", "Write a self-contained report page to share."),
    "notebook": ("notebook", "Write a Jupyter notebook that reproduces a report."),
    "serve": ("serve", "Show runs and verdicts in a browser, and answer as JSON."),
    "push": ("push", "Send runs to a server, which takes them like import."),
    "export": ("export", "Write measurements as CSV, Parquet or JSON."),
    "index": ("index", "Rebuild the index of run directories."),
    "schema": ("schema", "Print the JSON Schema of suite.yaml or systems.yaml."),
}
