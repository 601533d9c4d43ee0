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
}
