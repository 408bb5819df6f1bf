/* Tags and branches of a table. */
#include "append.h"

#include <string.h>

/* ---- tags ---- */

lake_status lake_create_tag(lake_client *client, const char *table, const char *tag,
                            uint64_t version, uint64_t *tagged, struct lake_error *err)
{
    LakePb__TagRequest request = LAKE_PB__TAG_REQUEST__INIT;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_tag = 1;
        request.tag = client_binary(base_str_of(tag));
        request.has_version = version != 0;
        request.version = version;
        status = client_ask(client, "lake.create_tag", &request.base, &lake_pb__tag__descriptor,
                            &answer, err);
    }
    if (status == LAKE_OK && tagged != NULL)
        *tagged = ((const LakePb__Tag *)answer)->version;
    client_answer_free(answer);
    return status;
}

lake_status lake_delete_tag(lake_client *client, const char *table, const char *tag,
                            struct lake_error *err)
{
    LakePb__TagRequest request = LAKE_PB__TAG_REQUEST__INIT;
    LakePb__TableName name;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_tag = 1;
        request.tag = client_binary(base_str_of(tag));
        status = client_ask(client, "lake.delete_tag", &request.base, NULL, NULL, err);
    }
    return status;
}

static lake_status copy_tags(const LakePb__ListTagsReply *reply, struct lake_tag_list *out,
                             struct lake_error *err)
{
    struct lake_tag_list list = {base_calloc_array(reply->n_tags + 1, sizeof(*list.tags)), 0};
    lake_status status =
        list.tags == NULL ? base_fail_no_memory(err, reply->n_tags * sizeof(*list.tags)) : LAKE_OK;
    while (status == LAKE_OK && list.count < reply->n_tags) {
        const LakePb__Tag *from = reply->tags[list.count];
        struct lake_tag *to = &list.tags[list.count++];
        to->name = base_strndup((const char *)from->tag.data, from->tag.len);
        to->branch = base_strndup((const char *)from->branch.data, from->branch.len);
        to->version = from->version;
        if (to->name == NULL || to->branch == NULL)
            status = base_fail_no_memory(err, from->tag.len + from->branch.len);
    }
    if (status == LAKE_OK)
        *out = list;
    else
        lake_tag_list_fini(&list);
    return status;
}

lake_status lake_list_tags(lake_client *client, const char *table, struct lake_tag_list *out,
                           struct lake_error *err)
{
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = client_ask(client, "lake.list_tags", &name.base,
                            &lake_pb__list_tags_reply__descriptor, &answer, err);
    if (status == LAKE_OK)
        status = copy_tags((const LakePb__ListTagsReply *)answer, out, err);
    client_answer_free(answer);
    return status;
}

void lake_tag_list_fini(struct lake_tag_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        base_free(list->tags[i].name);
        base_free(list->tags[i].branch);
    }
    base_free(list->tags);
    *list = (struct lake_tag_list){NULL, 0};
}

/* ---- branches ---- */

static lake_status branch_request(const char *table, const char *branch, LakePb__TableName *name,
                                  LakePb__BranchRequest *request, struct lake_error *err)
{
    lake_pb__branch_request__init(request);
    request->name = name;
    request->has_branch = 1;
    request->branch = client_binary(base_str_of(branch));
    return client_table_name(table, name, err);
}

lake_status lake_create_branch(lake_client *client, const char *table, const char *branch,
                               const char *parent, uint64_t version, uint64_t *branched,
                               struct lake_error *err)
{
    LakePb__BranchRequest request;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = branch_request(table, branch, &name, &request, err);
    if (status == LAKE_OK) {
        request.has_parent = parent != NULL;
        request.parent = client_binary(base_str_of(parent == NULL ? "" : parent));
        request.has_version = version != 0;
        request.version = version;
        status = client_ask(client, "lake.create_branch", &request.base,
                            &lake_pb__branch__descriptor, &answer, err);
    }
    if (status == LAKE_OK && branched != NULL)
        *branched = ((const LakePb__Branch *)answer)->parent_version;
    client_answer_free(answer);
    return status;
}

lake_status lake_delete_branch(lake_client *client, const char *table, const char *branch,
                               struct lake_error *err)
{
    LakePb__BranchRequest request;
    LakePb__TableName name;
    lake_error_clear(err);
    lake_status status = branch_request(table, branch, &name, &request, err);
    if (status == LAKE_OK)
        status = client_ask(client, "lake.delete_branch", &request.base, NULL, NULL, err);
    return status;
}

static lake_status copy_branches(const LakePb__ListBranchesReply *reply,
                                 struct lake_branch_list *out, struct lake_error *err)
{
    struct lake_branch_list list = {
        base_calloc_array(reply->n_branches + 1, sizeof(*list.branches)), 0};
    lake_status status = list.branches == NULL
                             ? base_fail_no_memory(err, reply->n_branches * sizeof(*list.branches))
                             : LAKE_OK;
    while (status == LAKE_OK && list.count < reply->n_branches) {
        const LakePb__Branch *from = reply->branches[list.count];
        struct lake_branch *to = &list.branches[list.count++];
        to->name = base_strndup((const char *)from->branch.data, from->branch.len);
        to->parent = base_strndup((const char *)from->parent.data, from->parent.len);
        to->parent_version = from->parent_version;
        to->created_unix_ms = from->created_unix_ms;
        if (to->name == NULL || to->parent == NULL)
            status = base_fail_no_memory(err, from->branch.len + from->parent.len);
    }
    if (status == LAKE_OK)
        *out = list;
    else
        lake_branch_list_fini(&list);
    return status;
}

lake_status lake_list_branches(lake_client *client, const char *table, struct lake_branch_list *out,
                               struct lake_error *err)
{
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = client_ask(client, "lake.list_branches", &name.base,
                            &lake_pb__list_branches_reply__descriptor, &answer, err);
    if (status == LAKE_OK)
        status = copy_branches((const LakePb__ListBranchesReply *)answer, out, err);
    client_answer_free(answer);
    return status;
}

void lake_branch_list_fini(struct lake_branch_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        base_free(list->branches[i].name);
        base_free(list->branches[i].parent);
    }
    base_free(list->branches);
    *list = (struct lake_branch_list){NULL, 0};
}
