"""Tables of wrapped functions besides the collectives: name -> parameters (see collectives.py).

Functions that all members of a communicator, window or file call are recorded like collectives, and
calls of one rank by call site (facts/operations.py). `*` marks a large-count form, `@` the level
of the standard.
"""

from __future__ import annotations

_RMA = "origin_addr origin_count origin_datatype"
_TARGET = "target_rank target_disp target_count target_datatype"
_SEND = "cbuf count datatype dest tag comm"
_RECEIVE = "buf count datatype source tag comm"
_SENDRECV = "sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm"
_REPLACE = "buf count datatype dest sendtag source recvtag comm"
_READ, _WRITE = "buf count datatype", "cbuf count datatype"

# family -> table
FAMILIES: dict[str, dict[str, str]] = {
    # Recorded by call site and peer (record/message.c).
    "point_to_point": {
        **dict.fromkeys(("Send*", "Bsend*", "Ssend*", "Rsend*"), _SEND),
        "Recv*": f"{_RECEIVE} status",
        "Sendrecv*": f"{_SENDRECV} status",
        "Sendrecv_replace*": f"{_REPLACE} status",
        "Probe": "source tag comm status",
        "Iprobe": "source tag comm flag status",
        "Mprobe": "source tag comm message status",
        "Improbe": "source tag comm flag message status",
        "Mrecv*": "buf count datatype message status",
        **dict.fromkeys(("Isend*", "Ibsend*", "Issend*", "Irsend*"), f"{_SEND} out_request"),
        "Irecv*": f"{_RECEIVE} out_request",
        "Imrecv*": "buf count datatype message out_request",
        "Isendrecv*@4": f"{_SENDRECV} out_request",
        "Isendrecv_replace*@4": f"{_REPLACE} out_request",
        **dict.fromkeys(
            ("Send_init*", "Bsend_init*", "Ssend_init*", "Rsend_init*"), f"{_SEND} out_request"
        ),
        "Recv_init*": f"{_RECEIVE} out_request",
        "Psend_init@4": "cbuf partitions partition_count datatype dest tag comm info out_request",
        "Precv_init@4": "buf partitions partition_count datatype source tag comm info out_request",
    },
    # LOCAL_OPERATIONS of facts/operations.py, without those that create or free communicators.
    "partitions": {
        "Pready@4": "partition request_value",
        "Pready_range@4": "partition_low partition_high request_value",
        "Pready_list@4": "length partition_list request_value",
        "Parrived@4": "request_value partition flag",
    },
    "one_sided": {
        "Put*": f"{_RMA} {_TARGET} win",
        "Get*": f"get_addr origin_count origin_datatype {_TARGET} win",
        "Accumulate*": f"{_RMA} {_TARGET} op win",
        "Get_accumulate*": f"{_RMA} result_addr result_count result_datatype {_TARGET} op win",
        "Fetch_and_op": "origin_addr result_addr datatype target_rank target_disp op win",
        "Compare_and_swap": "origin_addr compare_addr result_addr datatype target_rank target_disp "
        "win",
        "Rput*": f"{_RMA} {_TARGET} win out_request",
        "Rget*": f"get_addr origin_count origin_datatype {_TARGET} win out_request",
        "Raccumulate*": f"{_RMA} {_TARGET} op win out_request",
        "Rget_accumulate*": f"{_RMA} result_addr result_count result_datatype {_TARGET} op win "
        "out_request",
        "Win_lock": "lock_type rank assert win",
        "Win_lock_all": "assert win",
        "Win_unlock": "rank win",
        "Win_unlock_all": "win",
        "Win_flush": "rank win",
        "Win_flush_all": "win",
        "Win_flush_local": "rank win",
        "Win_flush_local_all": "win",
        "Win_sync": "win",
        "Win_post": "group assert win",
        "Win_start": "group assert win",
        "Win_complete": "win",
        "Win_wait": "win",
        "Win_test": "win flag",
        "Win_attach": "win base_address size",
        "Win_detach": "win const_address",
        "Win_set_info": "win info",
    },
    "files": {  # called by one process, or only started
        "File_read*": f"fh {_READ} status",
        "File_write*": f"fh {_WRITE} status",
        "File_read_at*": f"fh offset {_READ} status",
        "File_write_at*": f"fh offset {_WRITE} status",
        "File_read_shared*": f"fh {_READ} status",
        "File_write_shared*": f"fh {_WRITE} status",
        "File_iread*": f"fh {_READ} out_request",
        "File_iwrite*": f"fh {_WRITE} out_request",
        "File_iread_at*": f"fh offset {_READ} out_request",
        "File_iwrite_at*": f"fh offset {_WRITE} out_request",
        "File_iread_shared*": f"fh {_READ} out_request",
        "File_iwrite_shared*": f"fh {_WRITE} out_request",
        "File_iread_all*": f"fh {_READ} out_request",
        "File_iwrite_all*": f"fh {_WRITE} out_request",
        "File_iread_at_all*": f"fh offset {_READ} out_request",
        "File_iwrite_at_all*": f"fh offset {_WRITE} out_request",
        "File_delete": "filename info",
    },
    "other": {  # ports, names, process sets, memory and buffers of messages
        "Open_port": "info out_port",
        "Close_port": "port_name",
        "Publish_name": "service_name info port_name",
        "Lookup_name": "service_name info out_port",
        "Unpublish_name": "service_name info port_name",
        "Comm_set_info": "comm info",
        "Buffer_attach*": "buffer attached_size",
        "Buffer_detach*": "detached_buffer detached_size",
        "Buffer_flush@4.1": "",
        "Buffer_iflush@4.1": "out_request",
        "Comm_attach_buffer*@4.1": "comm buffer attached_size",
        "Comm_detach_buffer*@4.1": "comm detached_buffer detached_size",
        "Comm_flush_buffer@4.1": "comm",
        "Comm_iflush_buffer@4.1": "comm out_request",
        "Session_attach_buffer*@4.1": "session_value buffer attached_size",
        "Session_detach_buffer*@4.1": "session_value detached_buffer detached_size",
        "Session_flush_buffer@4.1": "session_value",
        "Session_iflush_buffer@4.1": "session_value out_request",
        "Alloc_mem": "size info baseptr",
        "Free_mem": "base_address",
        "Session_get_num_psets@4": "session_value info pset_count",
        "Session_get_nth_pset@4": "session_value info n pset_length out_pset",
    },
    # Functions with a special hook in request_completion.c, comm.c or pmpi.c. `out_comm` is a
    # communicator that the call creates. The level after `@` is the first release of the standard
    # with the function.
    "completion": {
        "Wait": "request status",
        "Waitall": "count_int requests statuses",
        "Waitany": "count_int requests out_index status",
        "Waitsome": "incount requests outcount indices statuses",
        "Test": "request flag status",
        "Testall": "count_int requests flag statuses",
        "Testany": "count_int requests out_index flag status",
        "Testsome": "incount requests outcount indices statuses",
        "Request_get_status": "request_value flag status",
        "Request_get_status_all@4.1": "count_int const_requests flag statuses",
        "Request_get_status_any@4.1": "count_int const_requests out_index flag status",
        "Request_get_status_some@4.1": "incount const_requests outcount indices statuses",
        "Start": "request",
        "Startall": "count_int requests",
        "Request_free": "request",
        "Cancel": "request",
    },
    "communicator": {
        "Comm_dup": "comm out_comm",
        "Comm_dup_with_info": "comm info out_comm",
        "Comm_idup": "comm out_comm out_request",
        "Comm_idup_with_info@4": "comm info out_comm out_request",
        "Comm_split": "comm color key out_comm",
        "Comm_split_type": "comm split_type key info out_comm",
        "Comm_create": "comm group out_comm",
        "Comm_create_group": "comm group tag out_comm",
        "Comm_create_from_group@4": "group stringtag info errhandler out_comm",
        "Cart_create": "comm ndims dims periods reorder out_comm",
        "Graph_create": "comm nnodes index edges reorder out_comm",
        "Dist_graph_create": "comm n sources degrees destinations weights info reorder out_comm",
        "Dist_graph_create_adjacent": "comm indegree sources sourceweights outdegree destinations "
        "destweights info reorder out_comm",
        "Cart_sub": "comm remain_dims out_comm",
        "Intercomm_create": "comm local_leader peer_comm remote_leader tag out_comm",
        "Intercomm_create_from_groups@4": "group local_leader remote_group remote_leader stringtag "
        "info errhandler out_comm",
        "Intercomm_merge": "comm high out_comm",
        "Comm_spawn": "command argv maxprocs info root comm out_comm errcodes",
        "Comm_spawn_multiple": "spawn_count commands argvs maxprocs_array infos root comm out_comm "
        "errcodes",
        "Comm_connect": "port_name info root comm out_comm",
        "Comm_accept": "port_name info root comm out_comm",
        "Comm_join": "fd out_comm",
        "Comm_get_parent": "out_comm",
        "Comm_free": "comm_pointer",
        "Comm_disconnect": "comm_pointer",
        "Comm_set_name": "comm comm_name",
    },
    # Recorded as calls of all members, but never selected, because mpiprof has no algorithms for
    # them. A window or file that a call creates (`out_win`, `out_file`) counts its calls from then
    # on (record/window_file_comm.c).
    "window": {
        "Win_create*": "buf size disp_unit info comm out_win",
        "Win_allocate*": "size disp_unit info comm baseptr out_win",
        "Win_allocate_shared*": "size disp_unit info comm baseptr out_win",
        "Win_create_dynamic": "info comm out_win",
        "Win_fence": "assert win",
        "Win_free": "win_pointer",
    },
    "file": {
        "File_open": "comm filename amode info out_file",
        "File_close": "file_pointer",
        "File_set_view": "fh offset datatype filetype datarep info",
        "File_set_size": "fh offset",
        "File_preallocate": "fh offset",
        "File_set_info": "fh info",
        "File_set_atomicity": "fh atomicity",
        "File_sync": "fh",
        "File_seek_shared": "fh offset whence",
        "File_read_all*": f"fh {_READ} status",
        "File_write_all*": f"fh {_WRITE} status",
        "File_read_at_all*": f"fh offset {_READ} status",
        "File_write_at_all*": f"fh offset {_WRITE} status",
        "File_read_ordered*": f"fh {_READ} status",
        "File_write_ordered*": f"fh {_WRITE} status",
        "File_read_all_begin*": f"fh {_READ}",
        "File_read_all_end": "fh buf status",
        "File_write_all_begin*": f"fh {_WRITE}",
        "File_write_all_end": "fh cbuf status",
        "File_read_at_all_begin*": f"fh offset {_READ}",
        "File_read_at_all_end": "fh buf status",
        "File_write_at_all_begin*": f"fh offset {_WRITE}",
        "File_write_at_all_end": "fh cbuf status",
        "File_read_ordered_begin*": f"fh {_READ}",
        "File_read_ordered_end": "fh buf status",
        "File_write_ordered_begin*": f"fh {_WRITE}",
        "File_write_ordered_end": "fh cbuf status",
    },
    "lifecycle": {
        "Init": "argc argv_pointer",
        "Init_thread": "argc argv_pointer required provided",
        "Finalize": "",
        "Abort": "comm errorcode",
        "Session_init@4": "info errhandler session",
        "Session_finalize@4": "session_pointer",
    },  # also MPI_Pcontrol, which is variadic and written by hand
    # Functions that create error handlers: the recorder's function runs before the program's
    # (record/error_handler.c).
    "handler": {"Comm_create_errhandler": "comm_errhandler_fn out_errhandler"},
    # The program's own reductions (operator.c).
    "operator": {"Op_create*": "user_fn commute out_op", "Op_free": "op_pointer"},
}
