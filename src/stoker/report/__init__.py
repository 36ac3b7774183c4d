"""HTML and terminal rendering shared by the verbs: it reads what they wrote, and knows nothing of torch.

`runfolder` reads a run folder, `summary` says what it amounts to; `html`, `terminal` and `machine` show it.
Other verbs call `stoker.report.html.write_report` and `write_comparison`.
"""
