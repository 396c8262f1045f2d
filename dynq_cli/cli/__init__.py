"""The `dynq` command: parse, call the library function of the same name, print.

Importing it, and asking any command for its help, loads typer and nothing heavier. Commands
import what they need when they run.
"""
