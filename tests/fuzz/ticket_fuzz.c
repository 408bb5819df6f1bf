/* libs: query */
/* A sealed ticket from outside, and the plain text inside one that a stolen key would make. */
#include "ticket.h"

#include "query_ticket.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_principal principal = {.principal_id = "p", .tenant_id = "t"};
    static struct query_ticket_keys *keys;
    struct query_ticket ticket;
    if (keys == NULL && query_ticket_keys_open(NULL, &keys, NULL) != LAKE_OK)
        return 0;
    if (query_ticket_open(keys, (struct lake_bytes){data, size}, QUERY_TICKET_STATEMENT, &principal,
                          LAKE_STR("a"), 0, &ticket, NULL) == LAKE_OK)
        query_ticket_fini(&ticket);
    QueryPb__StatementTicket *plain = query_pb__statement_ticket__unpack(NULL, size, data);
    if (plain != NULL)
        query_pb__statement_ticket__free_unpacked(plain, NULL);
    return 0;
}
