/* The engine's types for Arrow's and back, and a statement's tables made of them. */
#include "bridge_internal.h"

#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/common/extension_type_info.hpp"
#include "duckdb/common/type_visitor.hpp"
#include "duckdb/common/vector_operations/unary_executor.hpp"
#include "duckdb/function/cast/cast_function_set.hpp"
#include "duckdb/function/cast/default_casts.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"

namespace sql_bridge
{
namespace
{

const char *const FILE_PROPERTY = "lake.file"; /* of a type; an alias would hide its fields */
const char *const UTC_PROPERTY = "lake.utc";   /* of a timestamp of nanoseconds in a zone */

LogicalType Marked(const LogicalType &type, const char *property)
{
    auto marked = type.DeepCopy();
    auto mark = make_uniq<ExtensionTypeInfo>();
    mark->properties[property] = Value::BOOLEAN(true);
    marked.SetExtensionInfo(std::move(mark));
    return marked;
}

bool HasMark(const LogicalType &type, const char *property)
{
    return type.HasExtensionInfo() && type.GetExtensionInfo()->properties.count(property) > 0;
}

/* The engine's type of an Arrow field, with what it does not know marked at any depth: FILE values,
 * and the zone of nanoseconds. The mark travels with the type through projections, joins and
 * subqueries, and is lost by any computation. */
LogicalType MarkTypes(const LogicalType &type, const ArrowSchema &field, const char *file_name)
{
    if (ArrowSchemaMetadata(field.metadata).GetOption(ArrowSchemaMetadata::ARROW_EXTENSION_NAME) ==
            file_name &&
        type.id() == LogicalTypeId::STRUCT) {
        return Marked(type, FILE_PROPERTY);
    }
    if (sql_is_zoned_ns(&field) && type.id() == LogicalTypeId::TIMESTAMP_NS) {
        return Marked(type, UTC_PROPERTY);
    }
    switch (type.id()) {
    case LogicalTypeId::STRUCT: {
        child_list_t<LogicalType> children = StructType::GetChildTypes(type);
        for (idx_t i = 0; i < children.size(); i++) {
            children[i].second = MarkTypes(children[i].second, *field.children[i], file_name);
        }
        return LogicalType::STRUCT(std::move(children));
    }
    case LogicalTypeId::LIST:
        return LogicalType::LIST(
            MarkTypes(ListType::GetChildType(type), *field.children[0], file_name));
    case LogicalTypeId::ARRAY:
        return LogicalType::ARRAY(
            MarkTypes(ArrayType::GetChildType(type), *field.children[0], file_name),
            ArrayType::GetSize(type));
    default:
        return type;
    }
}

bool CastToZone(Vector &source, Vector &result, idx_t count, CastParameters &)
{
    UnaryExecutor::Execute<timestamp_ns_t, timestamp_tz_t>(
        source, result, count, [](timestamp_ns_t value) {
            if (!Timestamp::IsFinite(value)) {
                return timestamp_tz_t(value.value);
            }
            auto micros = value.value / Interval::NANOS_PER_MICRO;
            return timestamp_tz_t(micros - (value.value % Interval::NANOS_PER_MICRO < 0 ? 1 : 0));
        });
    return true;
}

/* A column of a type that the engine does not have stands in the table as one of bytes, so that the
 * others can be read; CheckScan refuses statements that touch it. */
void AddColumns(ClientContext &context, const ArrowSchema &schema, ArrowTableSchema &out,
                unordered_map<idx_t, string> &unreadable)
{
    vector<string> names;
    for (int64_t i = 0; i < schema.n_children; i++) {
        names.emplace_back(schema.children[i]->name);
    }
    QueryResult::DeduplicateColumns(names);
    for (idx_t i = 0; i < names.size(); i++) {
        unique_ptr<ArrowType> type;
        try {
            type = ArrowType::GetArrowLogicalType(context, *schema.children[i]);
        } catch (const std::exception &ex) {
            ArrowSchema bytes = *schema.children[i];
            bytes.format = "z";
            bytes.metadata = nullptr;
            bytes.dictionary = nullptr;
            type = ArrowType::GetArrowLogicalType(context, bytes);
            unreadable[i] = ErrorData(ex).RawMessage();
        }
        out.AddColumn(i, std::move(type), names[i]);
    }
}

} // namespace

/* A marked type is another one to the engine, which asks for casts before it computes. */
void RegisterCasts(DatabaseInstance &instance)
{
    auto &casts = CastFunctionSet::Get(instance);
    LogicalType plain = LogicalType::TIMESTAMP_NS;
    auto marked = Marked(plain, UTC_PROPERTY);
    casts.RegisterCastFunction(marked, plain, BoundCastInfo(DefaultCasts::ReinterpretCast), 0);
    casts.RegisterCastFunction(plain, marked, BoundCastInfo(DefaultCasts::ReinterpretCast), 0);
    casts.RegisterCastFunction(marked, LogicalType::TIMESTAMP_TZ, BoundCastInfo(CastToZone), 1);
}

unique_ptr<LakeTable> MakeTable(ClientContext &context, Catalog &catalog, LakeSchema &schema,
                                const struct sql_bridge_table &table, shared_ptr<Source> source,
                                const char *file_name)
{
    auto arrow_schema = source->source.methods->schema(source->source.object);
    ArrowTableSchema arrow;
    ArrowSchemaWrapper plain;
    struct lake_error error = {};
    if (sql_exact_schema(arrow_schema, &plain.arrow_schema, &error) != LAKE_OK) {
        throw OutOfMemoryException("no memory for a table's schema");
    }
    unordered_map<idx_t, string> unreadable;
    AddColumns(context, plain.arrow_schema, arrow, unreadable);
    CreateTableInfo info(schema, table.table);
    auto shown = arrow.GetNames().size() - (source->source.hides_last ? 1 : 0);
    for (idx_t i = 0; i < shown; i++) {
        info.columns.AddColumn(ColumnDefinition(
            arrow.GetNames()[i],
            MarkTypes(arrow.GetTypes()[i], *arrow_schema->children[i], file_name)));
    }
    return make_uniq<LakeTable>(catalog, schema, info, table.at_version, std::move(source),
                                std::move(arrow), std::move(unreadable));
}

void CheckResultType(const string &column, const LogicalType &result)
{
    auto lost = TypeVisitor::Contains(result, [](const LogicalType &type) {
        return type.id() == LogicalTypeId::TIME_TZ || type.id() == LogicalTypeId::BIT;
    });
    if (lost) {
        throw Refusal{LAKE_INVALID_ARGUMENT, "column " + column + " of the result is of type " +
                                                 result.ToString() +
                                                 ", which Arrow has no type for: cast it to "
                                                 "VARCHAR"};
    }
}

void ApplyMarks(ArrowSchema &field, const LogicalType &type, const char *metadata)
{
    switch (type.id()) {
    case LogicalTypeId::STRUCT:
        if (HasMark(type, FILE_PROPERTY)) {
            field.metadata = metadata;
            return;
        }
        for (idx_t i = 0; i < StructType::GetChildCount(type); i++) {
            ApplyMarks(*field.children[i], StructType::GetChildType(type, i), metadata);
        }
        return;
    case LogicalTypeId::LIST:
        ApplyMarks(*field.children[0], ListType::GetChildType(type), metadata);
        return;
    case LogicalTypeId::ARRAY:
        ApplyMarks(*field.children[0], ArrayType::GetChildType(type), metadata);
        return;
    case LogicalTypeId::TIMESTAMP_NS:
        if (HasMark(type, UTC_PROPERTY)) {
            field.format = "tsn:UTC";
        }
        return;
    default:
        return;
    }
}

} // namespace sql_bridge

using namespace sql_bridge;

lake_status sql_bridge_type_name(void *database, const struct ArrowSchema *field, char *out,
                                 size_t out_bytes, struct lake_error *err)
{
    return Guarded(err, [&] {
        Connection connection(DatabaseOf(database));
        auto type =
            ArrowType::GetArrowLogicalType(*connection.context, const_cast<ArrowSchema &>(*field));
        auto name = type->GetDuckType(true).ToString();
        if (name.size() >= out_bytes) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the type's name is %zu bytes long",
                             name.size());
        }
        memcpy(out, name.c_str(), name.size() + 1);
        return LAKE_OK;
    });
}
