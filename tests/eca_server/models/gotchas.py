"""Known problems of model APIs, by number, and the test for each.

Tests are named relative to this directory; a text without `::` is the reason for no test.
"""

GOTCHAS: dict[str, str] = {
    "1": "test_every_api.py::test_an_answer_that_breaks_off_on_its_way_ends_at_once",
    "2": "test_every_api.py::test_an_answer_that_breaks_off_on_its_way_ends_at_once",
    "3": "test_streams.py::"
    "test_a_stream_that_is_cut_gives_a_prefix_of_its_events_and_a_premature_stop",
    "4": "test_every_api.py::test_the_same_script_is_the_same_answer",
    "5": "test_streams.py::test_line_ends_of_every_kind_and_single_bytes_give_the_same_events",
    "6": "../../eca_protocol/test_sse.py::test_events_are_read_by_the_standard",
    "7": "test_streams.py::test_line_ends_of_every_kind_and_single_bytes_give_the_same_events",
    "8": "test_every_api.py::test_an_answer_ends_though_its_connection_stays_open",
    "9": "openai_chat/test_stream.py::test_one_json_object_in_place_of_a_stream_is_the_same_answer",
    "10": "test_every_api.py::test_an_error_has_the_same_class_over_every_api",
    "11": "../../eca_protocol/test_http.py::test_a_compressed_stream_is_read_all_the_same",
    "12": "openai_chat/test_backend.py::test_each_timer_has_its_length_and_its_name",
    "13": "openai_chat/test_backend.py::test_comments_are_progress_events_and_no_answer",
    "14": "openai_chat/test_backend.py::"
    "test_a_hundred_turns_stopped_at_once_close_a_hundred_connections",
    "15": "../../eca_protocol/test_http.py::"
    "test_a_pooled_connection_that_the_server_drops_is_replaced_silently",
    "16": "openai_chat/test_backend.py::test_a_redirect_is_reported_and_the_key_goes_nowhere",
    "17": "openai_chat/test_backend.py::"
    "test_ten_megabytes_in_one_event_are_one_delta_and_twenty_are_refused",
    "18": "openai_chat/test_stream.py::"
    "test_bytes_that_are_not_unicode_are_replaced_and_end_nothing",
    "19": "../../eca_protocol/test_http_ways.py::"
    "test_what_no_proxy_names_and_this_machine_are_asked_directly",
    "19b": "../../eca_protocol/test_http.py::"
    "test_chunks_that_came_together_starve_no_other_task_and_can_be_stopped",
    "20": "openai_chat/test_backend.py::test_what_cannot_be_sent_is_an_error_of_the_configuration",
    "21": "openai_chat/test_decoder.py::test_a_plain_answer_is_started_text_usage_and_finished",
    "22": "openai_chat/test_decoder.py::TestUsage::test_the_last_counts_win_wherever_they_stand",
    "23": "../agent/chat/test_compaction.py::"
    "test_what_was_not_counted_by_the_provider_is_estimated",
    "24": "openai_chat/test_tool_calls.py::test_two_calls_are_two_calls_however_they_are_labelled",
    "25": "openai_chat/test_tool_calls.py::test_no_arguments_are_an_empty_object",
    "26": "openai_chat/test_tool_calls.py::test_two_calls_are_two_calls_however_they_are_labelled",
    "27": "openai_chat/test_tool_calls.py::test_complete_calls_decide_whatever_the_reason_says",
    "28": "openai_chat/test_tool_calls.py::test_a_call_cut_by_the_limit_is_not_to_be_run",
    "29": "openai_chat/test_decoder.py::"
    "TestReasoning::test_it_is_one_block_with_its_text_once_whatever_the_field",
    "30": "openai_chat/test_decoder.py::"
    "TestReasoning::test_tags_are_reasoning_only_at_the_very_start",
    "31": "openai_chat/test_backend.py::test_what_the_model_thought_goes_back_where_it_must",
    "32": "openai_chat/test_backend.py::test_what_the_model_thought_goes_back_where_it_must",
    "33": "openai_chat/test_decoder.py::test_an_error_inside_a_stream_is_raised_as_what_it_is",
    "34": "test_every_api.py::"
    "test_an_empty_answer_behind_results_is_an_end_and_behind_a_prompt_an_error",
    "35": "openai_chat/test_backend.py::"
    "test_an_optional_field_that_is_refused_by_name_is_dropped_and_remembered",
    "36": "openai_chat/test_backend.py::"
    "test_a_call_that_the_provider_cannot_read_is_asked_for_once_more",
    "37": "openai_chat/test_tool_calls.py::test_two_calls_are_two_calls_however_they_are_labelled",
    "38": "openai_chat/test_decoder.py::test_choices_that_share_an_answer_are_merged",
    "39": "openai_chat/test_decoder.py::test_nulls_and_absences_are_nothing",
    "40": "openai_responses/test_backend.py::"
    "test_a_second_request_has_the_first_answer_with_the_ids_of_its_calls",
    "41": "openai_responses/test_decoder.py::"
    "test_what_was_never_streamed_is_taken_from_the_whole_items",
    "42": "openai_responses/test_decoder.py::test_an_incomplete_answer_ends_with_its_reason",
    "43": "test_every_api.py::test_an_overload_is_retried_and_no_answer_that_breaks_off",
    "44": "openai_responses/test_decoder.py::"
    "test_reasoning_without_text_is_begun_ended_and_stored_as_it_is_when_done",
    "45": "openai_responses/test_request.py::"
    "test_what_was_stopped_between_reasoning_and_call_does_not_go_back",
    "46": "openai_responses/test_request.py::"
    "test_items_go_back_in_their_order_with_what_the_model_wants_of_them",
    "46b": "openai_responses/test_backend.py::"
    "test_reasoning_that_is_not_taken_back_is_left_out_once_and_for_all",
    "47": "openai_responses/test_decoder.py::"
    "test_unknown_events_are_passed_over_and_unknown_items_stored_as_they_are",
    "48": "anthropic/test_decoder.py::test_pings_and_what_is_new_are_passed_over",
    "49": "test_every_api.py::test_an_overload_is_retried_and_no_answer_that_breaks_off",
    "50": "anthropic/test_decoder.py::"
    "TestCalls::test_arguments_are_the_pieces_or_else_what_the_start_says",
    "51": "anthropic/test_request.py::"
    "TestWhatGoesBack::test_results_are_in_one_message_before_what_the_user_says",
    "52": "anthropic/test_backend.py::test_what_the_model_thought_goes_back_byte_for_byte",
    "53": "anthropic/test_request.py::"
    "TestCache::test_the_last_mark_of_a_request_is_in_the_next_one_too",
    "54": "anthropic/test_backend.py::"
    "test_thinking_that_is_not_taken_back_is_left_out_of_one_more_try",
    "55": "anthropic/test_backend.py::test_an_answer_that_pauses_continues_as_if_it_had_not",
    "56": "anthropic/test_backend.py::"
    "test_a_refused_answer_is_shown_and_is_not_in_the_next_request",
    "57": "anthropic/test_request.py::test_every_history_is_written_as_the_api_wants_it",
    "58": "anthropic/test_backend.py::"
    "test_an_answer_that_would_not_fit_the_window_is_made_shorter_once",
    "59": "anthropic/test_decoder.py::TestCalls::test_they_run_whatever_the_stop_reason_says",
    "60": "anthropic/test_decoder.py::"
    "TestCounts::test_the_last_one_known_counts_and_nothing_is_added",
    "61": "google/test_backend.py::test_the_key_is_in_its_header_and_the_stream_is_asked_for",
    "62": "google/test_request.py::test_what_the_model_made_goes_back_exactly_as_it_came",
    "63": "google/test_decoder.py::test_a_blocked_prompt_is_reported_with_its_reason",
    "64": "test_errors_of_providers.py::test_what_a_provider_says_has_its_class",
    "65": "google/test_backend.py::"
    "test_a_wait_that_is_demanded_is_waited_and_an_exhausted_day_is_not",
    "66": "google/test_decoder.py::test_token_counts_are_disjoint_and_the_last_ones_count",
    "67": "google/test_backend.py::"
    "test_a_call_that_cannot_be_read_is_requested_once_more_with_a_note",
    "68": "ollama/test_backend.py::test_a_loop_of_calls_goes_back_as_it_came",
    "69": "ollama/test_decoder.py::"
    "test_an_error_in_the_stream_is_raised_and_what_came_before_stays",
    "70": "ollama/test_backend.py::"
    "TestRefusals::test_tools_are_left_out_of_one_more_try_and_from_then_on",
    "71": "ollama/test_backend.py::"
    "TestContext::test_it_is_the_same_for_each_caller_and_grows_with_the_need",
    "72": "ollama/test_decoder.py::test_a_count_that_is_missing_is_unknown",
    "73": "credentials/test_flows.py::"
    "test_a_device_login_shows_its_code_and_asks_until_it_was_entered",
    "74": "github_copilot/test_access.py::test_a_refused_token_is_renewed_once",
    "75": "github_copilot/test_access.py::test_the_client_that_wants_a_request_is_sent_it",
    "76": "credentials/test_tokens.py::test_many_tasks_and_servers_renew_once",
    "77": "credentials/test_tokens.py::test_a_login_that_was_withdrawn_is_over",
    "78": "test_retry_after.py::test_the_wait_that_headers_demand",
    "79": "test_errors_of_providers.py::test_what_a_provider_says_has_its_class",
    "80": "test_every_api.py::test_a_key_that_is_quoted_back_is_masked",
    "81": "test_switching.py::test_any_answer_before_the_next_request_is_legal",
    "82": "../agent/chat/test_switching.py::test_each_api_continues_where_another_one_was",
    "83": "openai_chat/test_tool_calls.py::"
    "test_arguments_are_strict_json_or_an_error_for_the_model",
    "84": "test_providers.py::test_nothing_of_http_is_loaded_before_its_use",
}
