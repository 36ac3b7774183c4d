"""HTML and terminal rendering shared by the verbs: it reads what they wrote, and knows nothing of torch."""
