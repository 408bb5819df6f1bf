/*
 * Shared by the bridge's files, the only C++ of Lake:
 *
 *   bridge_parse.cc    the tree of a statement, walked for its references and all that it calls
 *   bridge_catalog.cc  the read-only catalog `lake`, and the check after binding
 *   bridge_types.cc    tables of a statement: the engine's types for Arrow's, and back
 *   bridge_scan.cc     the table function under those tables, over sql_source
 *   bridge_query.cc    a connection, its prepared statement, its result as Arrow batches
 *
 * Everything a walk or check does not know is refused, so that a newer engine fails closed. Every
 * function with C linkage catches everything (Guarded).
 */
#ifndef SQL_BRIDGE_INTERNAL_H
#define SQL_BRIDGE_INTERNAL_H

#include "bridge.h"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/catalog/entry_lookup_info.hpp"
#include "duckdb/common/error_data.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/capi/capi_internal.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/parser/sql_statement.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/planner/planner_extension.hpp"

extern "C" {
#include <base/base.h>
}

namespace sql_bridge
{

using namespace duckdb;

constexpr const char *STATE_NAME = "lake";
constexpr idx_t MAX_DEPTH = 1000; /* of a statement's tree; the parser has the same */

/* ---- errors across the border ---- */

/* A refusal of our own, with its status. */
struct Refusal {
    lake_status status;
    string message;
};
lake_status StatusOf(ExceptionType type);
lake_status Fail(struct lake_error *err, const ErrorData &error);

template <class F> lake_status Guarded(struct lake_error *err, F &&body) noexcept
{
    try {
        return body();
    } catch (const Refusal &refusal) {
        return lake_fail(err, refusal.status, "%s", refusal.message.c_str());
    } catch (const std::bad_alloc &) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the SQL engine is out of memory");
    } catch (const std::exception &ex) {
        try {
            return Fail(err, ErrorData(ex));
        } catch (...) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the SQL engine is out of memory");
        }
    } catch (...) {
        return lake_fail(err, LAKE_INTERNAL, "the SQL engine failed without a message");
    }
}

inline bool SameName(const string &a, const string &b)
{
    return StringUtil::CIEquals(a, b);
}

/* ---- statements ---- */

struct Reference {
    string catalog, schema, table;
    uint64_t at_version;
};

/* ---- tables ---- */

/* One reference to a source. */
class Source
{
  public:
    explicit Source(struct sql_source source) : source(source)
    {
    }
    Source(const Source &) = delete;
    Source &operator=(const Source &) = delete;
    ~Source()
    {
        source.methods->unref(source.object);
    }
    struct sql_source source;
};

/* The engine's number of a source's last column when no * stands for it. */
const column_t HIDDEN_COLUMN = VIRTUAL_COLUMN_START;

class LakeTable : public TableCatalogEntry
{
  public:
    LakeTable(Catalog &catalog, SchemaCatalogEntry &schema, CreateTableInfo &info,
              uint64_t at_version, shared_ptr<Source> source, ArrowTableSchema arrow,
              unordered_map<idx_t, string> unreadable)
        : TableCatalogEntry(catalog, schema, info), at_version(at_version),
          source(std::move(source)), arrow(std::move(arrow)), unreadable(std::move(unreadable))
    {
        if (this->source->source.hides_last) {
            hidden = TableColumn(this->arrow.GetNames().back(), this->arrow.GetTypes().back());
        }
    }

    uint64_t at_version;
    shared_ptr<Source> source;
    ArrowTableSchema arrow;                  /* of all the source's columns */
    TableColumn hidden;                      /* the last of them, when no * stands for it */
    unordered_map<idx_t, string> unreadable; /* columns, and why */

    TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind) override;
    TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind,
                                  const EntryLookupInfo &) override
    {
        return GetScanFunction(context, bind); /* the lookup has already chosen the version */
    }
    unique_ptr<BaseStatistics> GetStatistics(ClientContext &, column_t) override
    {
        return nullptr;
    }
    TableStorageInfo GetStorageInfo(ClientContext &) override
    {
        return TableStorageInfo();
    }
    virtual_column_map_t GetVirtualColumns() const override
    {
        virtual_column_map_t result;
        result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
        if (source->source.hides_last) {
            result.insert(make_pair(HIDDEN_COLUMN, hidden));
        }
        return result;
    }
    vector<column_t> GetRowIdColumns() const override
    {
        return {};
    }
};

class LakeSchema : public SchemaCatalogEntry
{
  public:
    LakeSchema(Catalog &catalog, CreateSchemaInfo &info) : SchemaCatalogEntry(catalog, info)
    {
    }

    vector<unique_ptr<LakeTable>> tables;

    optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction,
                                           const EntryLookupInfo &lookup) override;
    void Scan(ClientContext &, CatalogType type,
              const std::function<void(CatalogEntry &)> &callback) override;
    void Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;

    optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction, CreateIndexInfo &,
                                           TableCatalogEntry &) override;
    optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction, CreateFunctionInfo &) override;
    optional_ptr<CatalogEntry> CreateTable(CatalogTransaction, BoundCreateTableInfo &) override;
    optional_ptr<CatalogEntry> CreateView(CatalogTransaction, CreateViewInfo &) override;
    optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction, CreateSequenceInfo &) override;
    optional_ptr<CatalogEntry> CreateTableFunction(CatalogTransaction,
                                                   CreateTableFunctionInfo &) override;
    optional_ptr<CatalogEntry> CreateCopyFunction(CatalogTransaction,
                                                  CreateCopyFunctionInfo &) override;
    optional_ptr<CatalogEntry> CreatePragmaFunction(CatalogTransaction,
                                                    CreatePragmaFunctionInfo &) override;
    optional_ptr<CatalogEntry> CreateCollation(CatalogTransaction, CreateCollationInfo &) override;
    optional_ptr<CatalogEntry> CreateType(CatalogTransaction, CreateTypeInfo &) override;
    void DropEntry(ClientContext &, DropInfo &) override;
    void Alter(CatalogTransaction, AlterInfo &) override;
};

/* What one connection may see, and the first error of its scans, whose status an exception through
 * the engine would lose. */
class LakeState : public ClientContextState
{
  public:
    vector<unique_ptr<LakeSchema>> schemas; /* immutable once the statement is prepared */

    LakeSchema *Find(const string &name) const
    {
        for (auto &schema : schemas) {
            if (SameName(schema->name, name)) {
                return schema.get();
            }
        }
        return nullptr;
    }

    [[noreturn]] void ThrowScanError(const struct lake_error &error)
    {
        {
            lock_guard<mutex> guard(lock);
            if (scan_error.code == LAKE_OK) {
                scan_error = error;
            }
        }
        if (error.code == LAKE_CANCELLED) {
            throw InterruptException();
        }
        throw IOException("%s", string(error.message));
    }
    bool TakeScanError(struct lake_error *err)
    {
        lock_guard<mutex> guard(lock);
        if (scan_error.code == LAKE_OK) {
            return false;
        }
        if (err != nullptr) {
            *err = scan_error;
        }
        return true;
    }

  private:
    mutex lock; /* of scan_error */
    struct lake_error scan_error = {};
};

/* The table function under every table of the catalog. */
bool IsOurScan(const TableFunction &function);
/* Throws when one of our scans is asked for a column that the engine cannot hold. */
void CheckScan(const LogicalGet &get);

/* Makes a table over `source`; Refusal when it has a column that the engine has no type for. */
unique_ptr<LakeTable> MakeTable(ClientContext &context, Catalog &catalog, LakeSchema &schema,
                                const struct sql_bridge_table &table, shared_ptr<Source> source,
                                const char *file_name);
/* Types of which the engine would send its own bytes, or drop a part. */
void CheckResultType(const string &column, const LogicalType &result);
/* Gives a result's fields back what their types are marked with. */
void ApplyMarks(ArrowSchema &field, const LogicalType &type, const char *metadata);
void RegisterCasts(DatabaseInstance &instance);

/* ---- the instance ---- */

struct LakeInfo : public PlannerExtensionInfo {
    LakeInfo(const struct sql_bridge_file_type &file_type) : file_type(file_type)
    {
    }
    struct sql_bridge_file_type file_type;
    atomic<bool> locked{false};
};

shared_ptr<LakeInfo> InfoOf(ClientContext &context);

inline DuckDB &DatabaseOf(void *database)
{
    return *reinterpret_cast<DatabaseWrapper *>(database)->database;
}

} // namespace sql_bridge

struct sql_bridge_statement {
    duckdb::unique_ptr<duckdb::SQLStatement> statement;
    duckdb::vector<sql_bridge::Reference> references;
    duckdb::vector<duckdb::reference<duckdb::BaseTableRef>> nodes;
    bool explain = false;
    bool repeatable = true; /* the same rows whenever it runs on the same tables */
};

#endif
