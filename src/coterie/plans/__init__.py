"""Plans: changes to groups as documents, written and looked at before they are made.

`model` is the document (docs/schemas/plan.json), `offsets_file` the file that keeps offsets for later
(docs/schemas/offsets-file.json), `making` asks a cluster what a plan would change, `execution` changes it.
"""
