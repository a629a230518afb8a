"""Functions and modules as networks in ONNX files. Start reading at `zyx.io.onnx.export.saving`.

recording       a function run once on stand-ins: its graph, and the names of what goes in and comes out
sizes           shapes in which some sizes are given with the call
writer          the nodes and constants of an ONNX graph that is being written
rules           which function writes down which kind of node of the graph
"""
