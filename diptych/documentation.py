"""Where messages send a reader: to the site, or to a file of ``docs/`` until the site is published."""


def page(name: str) -> str:
    """Where the page ``name``, such as "layers", is: on the site that ``[project.urls]`` of pyproject.toml calls
    ``Documentation``, or in ``docs/`` while it has none.
    """
    from importlib import metadata  # takes a while, for a message that may never be needed

    installed = metadata.distributions(name="diptych")  # none in a checkout that is not installed
    urls = [each for found in installed for each in found.metadata.get_all("Project-URL") or ()]
    site = dict(each.split(", ", 1) for each in urls).get("Documentation")
    return f"docs/{name}.md" if site is None else f"{site.rstrip('/')}/{name}.html"
