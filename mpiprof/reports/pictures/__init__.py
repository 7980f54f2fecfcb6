"""Pictures as SVG text, one per module, for pages, the HTML report and notebooks.

Each module has pure functions that return the text of one picture. `svg` has the elements.
Colours are CSS variables, so a picture follows the theme of its page without being made again.
"""
