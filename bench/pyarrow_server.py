"""PyArrow's own Flight server over the batches of an IPC file: the peer of flight_doget.

    pyarrow_server.py FILE.arrow REPEAT        prints its port
"""
import itertools
import sys

import pyarrow as pa
import pyarrow.flight as flight


class Server(flight.FlightServerBase):
    def __init__(self, path, repeat):
        super().__init__("grpc://127.0.0.1:0")
        with pa.ipc.open_stream(path) as reader:
            self.schema = reader.schema
            self.batches = list(reader)
        self.repeat = repeat

    def do_get(self, context, ticket):
        batches = itertools.chain.from_iterable(itertools.repeat(self.batches, self.repeat))
        reader = pa.RecordBatchReader.from_batches(self.schema, batches)
        return flight.RecordBatchStream(reader)


server = Server(sys.argv[1], int(sys.argv[2]))
print(server.port, flush=True)
server.serve()
