"""Engines that read and change one Lance table on disk: Lake, pylance, LanceDB and DuckDB's extension.

A condition is a list of (column, operator, value), all of which must hold: = != < <= > >= null notnull.
LanceDB and DuckDB know a table `t` by its directory, so every table here is `<directory>/t.lance`.
"""

import os
import pathlib
import subprocess

import duckdb
import duckdb_extension_lance
import lance
import lancedb
import lancedb.table
import pyarrow as pa
import pyarrow.compute as pc

from lance_rows import SIMPLE

BUILD = pathlib.Path(os.environ.get("LAKE_BUILD_DIR", "build/release"))


def sql(where):
    words = []
    for name, op, value in where:
        if op in ("null", "notnull"):
            words.append(f"{name} is {'not ' if op == 'notnull' else ''}null")
        else:
            words.append(f"{name} {op} '{value}'" if isinstance(value, str) else f"{name} {op} {value}")
    return " and ".join(words) or "true"


def run(tool, *arguments):
    done = subprocess.run([BUILD / "tests" / tool, *map(str, arguments)], capture_output=True, timeout=300)
    assert done.returncode == 0, (tool, arguments, done.stderr.decode()[-2000:])
    return done.stdout


def words_of(where):
    return [word for condition in where for word in ("--where", *condition)]


def write_stream(path, table, batch_rows=None):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return path


def relaxed(kind):
    """A type without dictionaries, in which everything may be null."""
    def member(field):
        return field.with_type(relaxed(field.type)).with_nullable(True)

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([member(field) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(member(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(member(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, member(kind.item_field))
    return kind


def decoded(column):
    """The one array of a column, of its relaxed type."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = relaxed(column.type)
    chunks = [chunk if chunk.type == kind else chunk.cast(kind) for chunk in chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], kind)


# ---- Lake -------------------------------------------------------------------------------------------


class Lake:
    name = "lake"

    def __init__(self, rng):
        self.rng = rng

    def takes(self, operation, schema):
        return operation != "cleanup"

    def read(self, uri, *arguments):
        return pa.ipc.open_stream(run("lance_tool", "cat", uri, *arguments)).read_all()

    def write(self, uri, table, *arguments):
        batch_rows = self.rng.choice([None, None, 7 if table.num_rows < 500 else 300, 1000])
        source = write_stream(f"{uri}.arrow", table, batch_rows)
        profile = self.rng.choice(["balanced", "fast", "small"])
        run("lance_tool", "write", uri, source, "--profile", profile, *arguments)

    def create(self, uri, table, storage):
        self.write(uri, table, "--storage", storage)

    def append(self, uri, table):
        self.write(uri, table, "--append")

    def overwrite(self, uri, table, storage):
        self.write(uri, table, "--overwrite", "--storage", storage)

    def delete(self, uri, where):
        run("lance_change_tool", "delete", uri, *words_of(where))

    def update(self, uri, value, where):
        run("lance_change_tool", "update", uri, "v", value, *words_of(where))

    def merge(self, uri, table, mode):
        run("lance_change_tool", "merge", uri, "id", write_stream(f"{uri}.arrow", table), *([mode] if mode else []))

    def compact(self, uri, target):
        run("lance_change_tool", "compact", uri, target, self.rng.choice([1, 10, 100]))

    def restore(self, uri, version):
        run("lance_change_tool", "restore", uri, version)

    def add(self, uri, field):
        names = {pa.int64(): "int64", pa.string(): "utf8", pa.list_(pa.float32()): "list<float>"}
        run("lance_change_tool", "add", uri, field.name, names[field.type])

    def drop(self, uri, name):
        run("lance_change_tool", "drop", uri, name)

    def rename(self, uri, name, new_name):
        run("lance_change_tool", "rename", uri, name, new_name)


# ---- pylance ----------------------------------------------------------------------------------------


class Pylance:
    name = "pylance"

    def __init__(self, rng):
        self.rng = rng

    def takes(self, operation, schema):
        return True

    def read(self, uri):
        return lance.dataset(uri).to_table()

    def options(self):
        return {"max_rows_per_file": self.rng.choice([300, 1 << 20])}

    def create(self, uri, table, storage):
        lance.write_dataset(table, uri, data_storage_version=storage, enable_stable_row_ids=self.rng.random() < 0.4,
                            enable_v2_manifest_paths=self.rng.random() < 0.8, **self.options())

    def append(self, uri, table):
        lance.write_dataset(table, uri, mode="append", **self.options())

    def overwrite(self, uri, table, storage):
        lance.write_dataset(table, uri, mode="overwrite", data_storage_version=storage, **self.options())

    def delete(self, uri, where):
        lance.dataset(uri).delete(sql(where))

    def update(self, uri, value, where):
        lance.dataset(uri).update({"v": str(value)}, where=sql(where))

    def merge(self, uri, table, mode):
        merge = lance.dataset(uri).merge_insert("id")
        merge = merge.when_matched_update_all() if mode != "insert" else merge
        (merge.when_not_matched_insert_all() if mode != "update" else merge).execute(table)

    def compact(self, uri, target):
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=target)

    def restore(self, uri, version):
        lance.dataset(uri, version=version).restore()

    def add(self, uri, field):
        lance.dataset(uri).add_columns(field)

    def drop(self, uri, name):
        lance.dataset(uri).drop_columns([name])

    def rename(self, uri, name, new_name):
        lance.dataset(uri).alter_columns({"path": name, "name": new_name})

    def index(self, uri):
        lance.dataset(uri).create_scalar_index("id", self.rng.choice(["BTREE", "ZONEMAP"]), replace=True)
        lance.dataset(uri).create_scalar_index("t", self.rng.choice(["BTREE", "BITMAP"]), replace=True)

    def optimize_index(self, uri):
        lance.dataset(uri).optimize.optimize_indices()


# ---- LanceDB ----------------------------------------------------------------------------------------


class LanceDB:
    name = "lancedb"

    def __init__(self, rng):
        self.rng = rng

    def takes(self, operation, schema):
        """It wants vectors of embeddings to be all there."""
        if operation in ("append", "merge"):
            return not any(pa.types.is_fixed_size_list(field.type) for field in schema)
        return operation in ("delete", "update", "compact", "restore", "drop", "rename")

    def table(self, uri):
        return lancedb.connect(os.path.dirname(uri)).open_table("t")

    def read(self, uri):
        return self.table(uri).to_arrow()

    def append(self, uri, table):
        self.table(uri).add(table)

    def delete(self, uri, where):
        self.table(uri).delete(sql(where))

    def update(self, uri, value, where):
        self.table(uri).update(where=sql(where), values={"v": value})

    def merge(self, uri, table, mode):
        merge = self.table(uri).merge_insert("id")
        merge = merge.when_matched_update_all() if mode != "insert" else merge
        (merge.when_not_matched_insert_all() if mode != "update" else merge).execute(table)

    def compact(self, uri, target):
        self.table(uri).optimize()

    def restore(self, uri, version):
        self.table(uri).restore(version)

    def drop(self, uri, name):
        self.table(uri).drop_columns([name])

    def rename(self, uri, name, new_name):
        self.table(uri).alter_columns({"path": name, "rename": new_name})


# ---- DuckDB -----------------------------------------------------------------------------------------


def types_in(kind):
    """A type and all that it is made of."""
    yield kind
    if pa.types.is_dictionary(kind):
        yield kind.value_type
    for i in range(kind.num_fields):
        yield from types_in(kind.field(i).type)


def is_any_list(kind):
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
            or pa.types.is_fixed_size_list(kind))


def list_levels(kind):
    return is_any_list(kind) + max((list_levels(kind.field(i).type) for i in range(kind.num_fields)), default=0)


def every_leaf_has_a_value(array):
    kind = array.type
    if pa.types.is_struct(kind):
        return all(every_leaf_has_a_value(member) for member in array.flatten())
    if pa.types.is_map(kind):
        return every_leaf_has_a_value(array.items)
    if is_any_list(kind):
        return every_leaf_has_a_value(array.flatten())
    return array.null_count < len(array)


def not_null_in_struct(kind):
    return any(not member.nullable for part in types_in(kind) if pa.types.is_struct(part) for member in part)


def duckdb_opens(schema):
    """No 256-bit decimals, wherever they are; and of lists in lists Lance 6, which the extension of 1.5 holds,
    loses items, whoever wrote them. (What a query does not ask for is read, too.)"""
    return not any(list_levels(field.type) > 1 or any(map(pa.types.is_decimal256, types_in(field.type)))
                   for field in schema)


def duckdb_survives(uri):
    """Lance 6 reads pages of lists in which no item has a value with fewer items than there are, [[null, null]]
    as [[null]], also those that it wrote itself, and ends the process where vectors have no value. DuckDB does
    so where a dictionary has none."""
    dataset = lance.dataset(uri)
    names = [field.name for field in dataset.schema
             if any(is_any_list(kind) or pa.types.is_dictionary(kind) for kind in types_in(field.type))]
    return duckdb_opens(dataset.schema) and all(
        every_leaf_has_a_value(decoded(fragment.to_table(columns=[name])[name]))
        for fragment in dataset.get_fragments() for name in names)


def duckdb_reads(field):
    """DuckDB has no equal of durations, of nanoseconds of a time zone, and of nulls without a type; Lance 6 shows
    JSON as it is stored, and takes the bits of booleans in full-zip pages for bytes."""
    full_zip = (field.metadata or {}).get(b"lance-encoding:structural-encoding") == b"fullzip"
    return not any(pa.types.is_duration(kind) or pa.types.is_null(kind) or isinstance(kind, pa.JsonType) or (full_zip and pa.types.is_boolean(kind))
                   or (pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "ns")
                   for kind in types_in(field.type))


class DuckDB:
    name = "duckdb"
    shared = None

    def __init__(self, rng):
        self.rng = rng
        if DuckDB.shared is None:
            folder = pathlib.Path(duckdb_extension_lance.__file__).parent / "extensions" / f"v{duckdb.__version__}"
            DuckDB.shared = duckdb.connect(config={"threads": 2})
            DuckDB.shared.execute(f"LOAD '{folder}/lance.duckdb_extension'")

    def takes(self, operation, schema):
        """Rows of its own have the types of Lance only where all of them are simple; what it rewrites it must be
        able to read; and a condition of its own on another column than the first deletes other rows."""
        if operation in ("append", "merge", "update"):
            return all(field.type in SIMPLE and field.nullable for field in schema)
        if not duckdb_opens(schema):
            return False
        if operation in ("compact", "delete"):
            return not any(is_any_list(part) or not_null_in_struct(part) for field in schema for part in types_in(field.type))
        return operation in ("drop", "rename")

    def execute(self, uri, statement, rows=None):
        """One statement on the table as `d.main.t`, on a connection of its own: the extension of 1.5 keeps a
        table as a connection first saw it, whatever others do to it (lance-duckdb#224)."""
        connection = self.shared.cursor()
        connection.execute(f"attach '{os.path.dirname(uri)}' as d (type lance)")
        try:
            if rows is not None:
                connection.register("new_rows", rows)
            return connection.execute(statement).to_arrow_table()
        finally:
            connection.execute("detach d")
            connection.close()

    def read(self, uri, names):
        columns = ", ".join(f'"{name}"' for name in names)
        return self.execute(uri, f"select {columns} from d.main.t")

    def append(self, uri, table):
        self.execute(uri, "insert into d.main.t select * from new_rows", table)

    def delete(self, uri, where):
        self.execute(uri, f"delete from d.main.t where {sql(where)}")

    def update(self, uri, value, where):
        self.execute(uri, f"update d.main.t set v = {value} where {sql(where)}")

    def merge(self, uri, table, mode):
        names = [name for name in table.column_names if name != "id"]
        sets = ", ".join(f"{name} = s.{name}" for name in names)
        update = f"when matched then update set {sets}" if mode != "insert" else ""
        insert = f"when not matched then insert values ({', '.join('s.' + name for name in table.column_names)})"
        self.execute(uri, f"merge into d.main.t using new_rows s on t.id = s.id {update} {insert if mode != 'update' else ''}",
                     table)

    def compact(self, uri, target):
        self.execute(uri, "optimize d.main.t")

    def drop(self, uri, name):
        self.execute(uri, f'alter table d.main.t drop column "{name}"')

    def rename(self, uri, name, new_name):
        self.execute(uri, f'alter table d.main.t rename column "{name}" to "{new_name}"')


def mask_of(table, where):
    """Which rows satisfy a condition, as SQL has it: what is not known does not."""
    calls = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    mask = pa.array([True] * table.num_rows, pa.bool_())
    for name, op, value in where:
        column = decoded(table[name])
        if op in ("null", "notnull"):
            holds = pc.is_null(column) if op == "null" else pc.is_valid(column)
        else:
            holds = pc.fill_null(calls[op](column, pa.scalar(value, column.type)), False)
        mask = pc.and_(mask, holds)
    return mask
