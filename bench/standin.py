"""DuckDB behind a PyArrow Flight server: what a user would otherwise write for small statements.

    standin.py PARQUET        serves the file as the table robots.frames; prints its port
"""
import sys

import duckdb
import pyarrow.flight as flight

QUERY_URL = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"


def field(data, number):
    """The first length-delimited field `number` of a protobuf message of small fields."""
    at = 0
    while at < len(data):
        key, at = data[at], at + 1
        size = shift = 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if key >> 3 == number:
            return data[at:at + size]
        at += size
    return b""


class Server(flight.FlightServerBase):
    def __init__(self, parquet):
        super().__init__("grpc://127.0.0.1:0")
        self.database = duckdb.connect()
        self.database.execute("CREATE SCHEMA robots")
        self.database.execute(f"CREATE TABLE robots.frames AS FROM read_parquet('{parquet}')")

    def get_flight_info(self, context, descriptor):
        sql = field(field(descriptor.command, 2), 1)
        result = self.database.cursor().execute(f"SELECT * FROM ({sql.decode()}) LIMIT 0")
        schema = result.to_arrow_table().schema
        endpoint = flight.FlightEndpoint(sql, [])
        return flight.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context, ticket):
        result = self.database.cursor().execute(ticket.ticket.decode())
        return flight.RecordBatchStream(result.to_arrow_table())


server = Server(sys.argv[1])
print(server.port, flush=True)
server.serve()
