"""The page at `/`: one document that needs no other, made anew for each reader."""

from stoker.monitor.page.render import Page, render_page

__all__ = ["Page", "render_page"]
