"""The built-in tasks. They know training by its public face only, as a user's own task does."""
