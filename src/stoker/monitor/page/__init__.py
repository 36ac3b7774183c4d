"""The page at `/`: one document that needs no other, made anew for each sample and language."""
