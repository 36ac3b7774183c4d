"""The whole stack: files for Prometheus, Alertmanager and Grafana, and running them on one machine."""
