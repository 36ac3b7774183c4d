"""Who is told of an alert, and how: the settings, Alertmanager's configuration, and the relay to chat robots."""
