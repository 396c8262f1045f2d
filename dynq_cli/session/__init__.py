"""The library behind the commands: the same verbs, for Python.

- `explain`: what each query of a spec costs to keep, and why
- `take_in`: change logs into a state, each a version
"""
