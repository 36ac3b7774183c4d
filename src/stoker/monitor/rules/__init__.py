"""Recording and alert rules for Prometheus, made from tables.

`tables/exporters.yaml` and `tables/sources.csv` say how the series of each exporter become one set, `tables/series.csv`
names that set, `tables/derived.yaml` what is computed from it; `tables/alerts.yaml` judges it by
`tables/thresholds.csv`. Nothing but `gpu:*`, `run:*`, `host:*` and `up` stands in an alert, so every alert works
whichever exporter a machine runs.
"""
