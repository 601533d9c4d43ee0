"""What is known to go wrong on the wires of models, by number, and the test that shows each.

The tests are named from this folder on; a text without `::` says why there is none.
"""

GOTCHAS: dict[str, str] = {
    "40": "openai_responses/test_backend.py::"
    "test_a_second_request_has_the_first_answer_with_the_ids_of_its_calls",
    "41": "openai_responses/test_decoder.py::"
    "test_what_was_never_streamed_is_taken_from_the_whole_items",
    "42": "openai_responses/test_decoder.py::test_an_incomplete_answer_ends_with_its_reason",
    "43": "openai_responses/test_backend.py::"
    "test_a_failure_before_anything_was_seen_is_tried_again_and_later_one_is_told",
    "44": "openai_responses/test_decoder.py::"
    "test_reasoning_without_a_word_is_begun_ended_and_kept_as_it_is_when_done",
    "45": "openai_responses/test_request.py::"
    "test_what_was_stopped_between_reasoning_and_call_does_not_go_back",
    "46": "openai_responses/test_request.py::"
    "test_items_go_back_in_their_order_with_what_the_model_wants_of_them",
    "46b": "openai_responses/test_backend.py::"
    "test_reasoning_that_is_not_taken_back_is_left_out_once_and_for_all",
    "47": "openai_responses/test_decoder.py::"
    "test_unknown_events_are_passed_over_and_unknown_items_kept_as_they_are",
    "48": "anthropic/test_decoder.py::test_pings_and_what_is_new_are_passed_over",
    "49": "anthropic/test_backend.py::"
    "test_overloaded_before_the_first_word_is_tried_again_and_after_it_not",
    "50": "anthropic/test_decoder.py::"
    "TestCalls::test_arguments_are_the_pieces_or_else_what_the_start_says",
    "51": "anthropic/test_request.py::"
    "TestWhatGoesBack::test_results_stand_in_one_message_before_what_the_user_says",
    "52": "anthropic/test_backend.py::test_what_the_model_thought_goes_back_byte_for_byte",
    "53": "anthropic/test_request.py::"
    "TestCache::test_the_last_mark_of_a_request_is_in_the_next_one_too",
    "54": "anthropic/test_backend.py::"
    "test_thinking_that_is_not_taken_back_is_left_out_of_one_more_try",
    "55": "anthropic/test_backend.py::test_an_answer_that_pauses_goes_on_as_if_it_had_not",
    "56": "anthropic/test_backend.py::"
    "test_a_refused_answer_is_shown_and_is_not_in_the_next_request",
    "57": "anthropic/test_request.py::test_every_history_is_written_as_the_api_wants_it",
    "58": "anthropic/test_backend.py::"
    "test_an_answer_that_would_not_fit_the_window_is_made_shorter_once",
    "59": "anthropic/test_decoder.py::TestCalls::test_they_run_whatever_the_stop_reason_says",
    "60": "anthropic/test_decoder.py::"
    "TestCounts::test_the_last_one_known_counts_and_nothing_is_added",
    "61": "google/test_backend.py::test_the_key_stands_in_its_header_and_the_stream_is_asked_for",
    "62": "google/test_request.py::test_what_the_model_made_goes_back_exactly_as_it_came",
    "63": "google/test_decoder.py::test_a_blocked_prompt_is_told_with_its_reason",
    "64": "google/test_backend.py::test_each_error_is_of_its_class",
    "65": "google/test_backend.py::"
    "test_a_wait_that_is_demanded_is_waited_and_an_exhausted_day_is_not",
    "66": "google/test_decoder.py::test_token_counts_are_disjoint_and_the_last_ones_count",
    "67": "google/test_backend.py::"
    "test_a_call_that_cannot_be_read_is_asked_for_once_more_with_a_word_on_it",
    "68": "ollama/test_backend.py::test_a_loop_of_calls_goes_back_as_it_came",
    "69": "ollama/test_decoder.py::"
    "test_an_error_in_the_stream_is_raised_and_what_came_before_stays",
    "70": "ollama/test_backend.py::"
    "TestRefusals::test_tools_are_left_out_of_one_more_try_and_from_then_on",
    "71": "ollama/test_backend.py::"
    "TestContext::test_it_is_the_same_for_whoever_asks_and_grows_with_the_need",
    "72": "ollama/test_decoder.py::test_a_count_that_is_missing_is_unknown",
}
