"""Views of the keys, values and pairs of a store or a snapshot, or of a range of it."""

from collections.abc import ItemsView, KeysView, ValuesView


class _View:
    """A range, whose present contents each use reads. Iteration is in key order, or in reverse."""

    __slots__ = ()
    _part = ""

    def __init__(self, mapping, bounds, reverse):
        self._mapping = mapping
        self._bounds = bounds
        self._reverse = reverse

    def __iter__(self):
        return self._mapping._pairs(self._part, *self._bounds, self._reverse)

    def __reversed__(self):
        return self._mapping._pairs(self._part, *self._bounds, not self._reverse)

    def __len__(self):
        """Counts the keys, which reads all of them."""
        return self._mapping._count(*self._bounds)

    def __repr__(self):
        names = zip(("start", "stop", "prefix"), self._bounds)
        said = [f"{name}={bound!r}" for name, bound in names if bound is not None]
        said += ["reverse=True"] if self._reverse else []
        return f"<{self._part} of {self._mapping!r}{': ' if said else ''}{', '.join(said)}>"

    def _covers(self, key):
        start, stop, prefix = self._bounds
        key = bytes(key)
        return (
            (start is None or start <= key)
            and (stop is None or key < stop)
            and (prefix is None or key.startswith(prefix))
        )


class Keys(_View, KeysView):
    """The keys: a set in key order."""

    __slots__ = ("_bounds", "_reverse")
    _part = "keys"

    def __contains__(self, key):
        return key in self._mapping and self._covers(key)


class Values(_View, ValuesView):
    """The values, in the order of their keys."""

    __slots__ = ("_bounds", "_reverse")
    _part = "values"

    def __contains__(self, value):
        return any(value == other for other in self)


class Items(_View, ItemsView):
    """The pairs of a key and its value: a set in key order."""

    __slots__ = ("_bounds", "_reverse")
    _part = "items"

    def __contains__(self, item):
        key, value = item
        found = self._mapping.get(key)
        return found is not None and found == value and self._covers(key)
