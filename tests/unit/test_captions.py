"""What captions tell, on made-up tables: images, extrapolation, what differs from the paper."""

from dataclasses import replace

import pytest
from made_up_captions import BY_BATCH, said
from made_up_tables import figure, made_up_table

from ddlbench.figures.captions.caption import caption
from ddlbench.figures.captions.images import images
from ddlbench.figures.captions.missing import why_missing
from ddlbench.figures.rows import points
from ddlbench.plan.study import Deviation

OF_DIGITS = Deviation("The paper trains on other images.", {"dataset": ("digits",)}, ())
OF_TIMES = Deviation("The paper gives no number of epochs.", {}, ("training_time_s",))


def test_a_deviation_is_said_where_a_point_has_its_values_and_nowhere_else():
    assert "Differences from the paper: The paper trains on other images." in said(deviations=(OF_DIGITS,))[1]
    _, of_mnist = said(deviations=(OF_DIGITS,), dataset="mnist")
    assert "Differences" not in of_mnist


def test_a_study_of_no_paper_speaks_of_its_own_figure():
    rows = points(made_up_table({"batch_size": [64, 128], "workers": [1, 2, 4]}), BY_BATCH)
    assert "In the paper: The paper shows something." in caption(rows, BY_BATCH)
    own = replace(BY_BATCH, of_a_paper=False, caption="Two workers share a GPU.", deviations=(OF_DIGITS,))
    assert caption(rows, own).endswith(f"\n{OF_DIGITS.text}\nTwo workers share a GPU.\n")
    assert "the paper: " not in caption(rows, own)


def test_steps_of_workers_of_a_server_that_do_not_count_are_told():
    in_turn = "those in which asynchronous workers begin and end one after another"
    together = "the first ones, which synchronous workers of a server begin at one moment"
    assert f"without {in_turn}" in said(strategy="parameter_server_async")[0]
    assert f"without {together}" in said(strategy="parameter_server_sync")[0]
    of_both = figure("made_fig1", "batch_size", "training_time_s", lines="strategy")
    servers = ["parameter_server_sync", "parameter_server_async"]
    rows = points(made_up_table({"batch_size": [64, 128], "strategy": servers}, workers=2), of_both)
    assert f"without {together} and {in_turn}" in caption(rows, of_both)
    for all_count in ({"strategy": "parameter_server_async", "epochs": 3}, {"strategy": "ring_allreduce"}):
        assert "without" not in said(**all_count)[0]


def test_a_table_that_says_nothing_of_shared_hosts_is_of_hosts_of_one_worker():
    of_one = Deviation("Its hosts have eight workers.", {"workers_per_host": (1,)}, ())
    assert of_one.text in said(deviations=(of_one,))[1]
    assert of_one.text not in said(deviations=(of_one,), workers_per_host=8)[1]


def test_a_deviation_of_what_is_shown_stands_in_the_picture_and_once_in_the_caption():
    picture, whole = said(deviations=(OF_DIGITS, OF_TIMES))
    assert OF_TIMES.text in picture
    assert OF_DIGITS.text not in picture
    assert whole.count(OF_TIMES.text) == 1
    assert OF_TIMES.text not in said("step_time_ms", deviations=(OF_TIMES,))[1]


def test_a_batch_of_each_worker_can_be_a_condition():
    of_two = Deviation("The paper has larger batches.", {"batch_per_worker": (32,)}, ())
    assert of_two.text in said(deviations=(of_two,))[1]
    assert of_two.text not in said(deviations=(of_two,), batch_size=[512])[1]


@pytest.mark.parametrize(
    ("y", "facts", "told"),
    [
        ("training_time_s", {}, "to 10 epochs of 60,000 images."),
        ("epoch_time_s", {}, "to an epoch of 60,000 images."),
        ("epoch_time_s", {"epoch_images": None, "epoch_steps": 1563}, "to an epoch of 1,563 steps."),
    ],
)
def test_the_picture_says_what_times_are_extrapolated_to(y, facts, told):
    assert f"extrapolated from these steps {told}" in said(y, **facts)[0]


def test_a_time_of_a_step_is_not_called_extrapolated():
    assert "extrapolated" not in said("step_time_ms")[1]


def test_a_mark_is_explained_by_its_estimator():
    assert "total time divided by total steps" in said()[0]
    assert "the median of" in said("test_accuracy_percent", epochs=2)[0]


def test_what_has_stalled_is_told_with_how_it_counts():
    words = "Given up because links stalled: 3 repetitions; the time until then counts as a step."
    assert words in said(batch_size=[64], stalled=1)[0]  # of three numbers of workers
    words = "Not counted, as links stalled before a quarter of the steps was finished: 6 repetitions."
    assert words in said(batch_size=[64], stalled_at_once=2)[0]
    assert "stalled" not in said(stalled=0, stalled_at_once=0)[0]


def test_points_that_do_not_resolve_a_time_are_counted_where_a_time_is_shown():
    assert "Faint: unresolved (1 point)" in said(epochs=2)[0]
    assert "Faint" not in said("test_accuracy_percent", epochs=2)[0]


@pytest.mark.parametrize(
    ("dataset", "shape", "words"),
    [
        ("digits", "28x28x1", "1,437 handwritten digits of 8 x 8 pixels (scikit-learn), enlarged to 28 x 28"),
        ("mnist", "28x28x1", "60,000 handwritten digits of 28 x 28 pixels (MNIST)"),
        ("cifar10", "224x224x3", "50,000 colour images of 32 x 32 pixels (CIFAR-10), enlarged to 224 x 224"),
        ("synthetic", "32x32x3", "made-up images of 32 x 32 pixels in colour, for timing only"),
    ],
)
def test_images_are_described_in_words(dataset, shape, words):
    table = made_up_table({"workers": [1, 2]}, dataset=dataset, image_shape=shape)
    assert images(table, "step_time_ms") == [f"Data: {words}."]


def test_replayed_compute_is_said_to_read_no_images():
    table = made_up_table({"workers": [1, 2]}, dataset="synthetic", image_shape="224x224x3")
    table["replay"] = "K80, fp32 (computed)"
    words = "images of 224 x 224 pixels in colour, of which replayed compute reads none"
    assert images(table, "step_time_ms") == [f"Data: {words}."]
    table.loc[0, "replay"] = None
    told = f"Data: made-up images of 224 x 224 pixels in colour, for timing only; {words}."
    assert images(table, "step_time_ms") == [told]


def test_a_trained_batch_that_holds_images_twice_is_owned_up_to():
    table = made_up_table({"batch_size": [64, 2048]}, epochs=1)
    told = " ".join(images(table, "test_loss"))
    assert "tested on 360 others" in told
    assert "A batch of 2,048 holds some of them twice or more." in told
    assert "twice" not in " ".join(images(made_up_table({"batch_size": [64, 2048]}), "step_time_ms"))


@pytest.mark.parametrize("reason", [None, float("nan")])
def test_a_speed_up_without_one_worker_says_so(reason):
    table = made_up_table({"batch_size": [128], "workers": [2, 4]}).assign(reason=reason)
    rows = points(table, figure("made_fig1", "workers", "speedup"))
    assert [why_missing(row) for row in rows.to_dict("records")] == ["one worker alone is not measured"] * 2


def test_trainings_that_diverged_are_told_where_a_loss_is_shown():
    assert "6 trainings diverged, and the medians are of the others." in said("test_loss", diverged=1)[0]
    assert "diverged" not in said("test_loss")[0] + said("step_time_ms", diverged=1)[0]


def test_what_does_not_fit_on_a_gpu_is_not_said_to_exceed_its_hosts_memory():
    row = {"status": "does_not_fit", "memory_gb": 8.0}
    assert why_missing(row | {"devices": "cpu"}) == "does not fit in 8 GB"
    assert why_missing(row | {"devices": "gpu"}) == "does not fit into memory"


def test_what_does_not_fit_on_this_machine_is_not_said_to_exceed_the_studys_memory():
    row = {"status": "does_not_fit", "memory_gb": 8.0, "host_memory_gb": 1.4, "devices": "cpu"}
    assert why_missing(row) == "does not fit in 1.4 GB, this machine's share"
    assert why_missing(row | {"host_memory_gb": 8.0}) == "does not fit in 8 GB"


def test_one_of_something_is_not_said_in_the_plural():
    table = made_up_table({"batch_size": [192, 1280], "workers": [1, 2]}).assign(repetitions=1, steps=1)
    assert "over 1 repetition in 1 launch (1 step a point)" in caption(
        points(table.assign(launches=1), BY_BATCH), BY_BATCH
    )
