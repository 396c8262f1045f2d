"""Plan a query: which views are kept, how a change climbs them, how results are read from them.

view_tree     the tree itself: nodes, guards, the output set; every condition checked
cost          what a tree costs under changes; the order in which trees are preferred
search        finding the cheapest tree by hypergraph reduction
order         which orders of the result a tree can keep, and the layered tree that does
free_connex_extension        heads that make an acyclic query free-connex
materialise   atoms to join into unguarded nodes where no tree exists
cyclic_core   the cyclic parts of a join, and how they are broken up
heavy_pairs   which cycles IVM-ε keeps the sums of
delta_join    by which lists a changed row of a cycle is joined with the others
tree_updates  what a changed row of an atom touches in the tree of a query
materialisation_reasons    what is joined or filtered between trees, and why
strategies    the kinds of programs, and when each is chosen
choose        the strategy for a query: all of the above, in order
plan          the immutable result
program       the steps in which a query is kept: trees, cycles, and relations that their results fill
lower         any query as such steps
change_cost   what one changed row of each relation costs, through all steps
program_cost  what a program costs: update, delay, count, jth, test, rank, diff, space; its steps in words
multi_tree_cost  what reading a result from several trees costs
stored        what a program stores, in words
edits         what to edit in a spec so that a query is cheaper, each tried
fingerprint   equal exactly if the kept data is
codec         plans, and whatever else is frozen, as JSON and back
explain       a plan in words and as JSON; `draw`: a tree as text
picture       what a program keeps, as Mermaid and as DOT
"""
