"""Flight SQL by hand over pyarrow.flight: just what tests need of its messages."""

import pyarrow.flight as flight


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def any_of(name, body):
    """A google.protobuf.Any of a Flight SQL message."""
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}"
    return field(1, url.encode()) + field(2, body)


def statement(sql):
    """The descriptor of CommandStatementQuery."""
    return flight.FlightDescriptor.for_command(
        any_of("CommandStatementQuery", field(1, sql.encode())))


def info(client, sql, options=None):
    return client.get_flight_info(statement(sql), options)


def rows(client, ticket, options=None):
    return client.do_get(ticket, options).read_all().to_pylist()


def query(client, sql, options=None):
    return rows(client, info(client, sql, options).endpoints[0].ticket, options)


def tables(client):
    """CommandGetTables with include_schema."""
    command = any_of("CommandGetTables", varint(5 << 3) + varint(1))
    planned = client.get_flight_info(flight.FlightDescriptor.for_command(command))
    return rows(client, planned.endpoints[0].ticket)
