"""What each of the five papers claims stands in config/claims, by the names of the tests that judge it."""

import pytest

from ddlbench.claims.claim import read_claims
from tests.support.repository import REPOSITORY

CLAIMED = {
    "zhao2016": {
        "400 to 2000 Mbit/s cuts the time by 24.14, 33.36, 18.86 % (stand-alone)": (
            "fig5_mlp_ratio fig5_conv1_ratio fig5_conv2_ratio"
        ),
        "and by 46.97, 18.90, 6.90 % (cloud)": (
            "fig6_mlp_ratio fig6_conv1_ratio fig6_conv2_ratio fig6_conv2_ratio_1600"
        ),
        "the second layer's fastest is 1200 Mbit/s stand-alone": "fig5_conv2_fastest_at_1200",
        "and 1600 Mbit/s in the cloud": "fig6_conv2_fastest_at_1600",
        "a convolution takes 15 times as long, a second 18 % more (stand-alone)": (
            "fig5_convolution_by_mlp fig5_second_layer"
        ),
        "10 times, and 40 % (cloud)": "fig6_convolution_by_mlp fig6_second_layer",
        "1 to 5 % loss multiplies the time by 9.1, 5.1, 2.2 (stand-alone)": (
            "fig7_mlp_ratio fig7_conv1_ratio fig7_conv2_ratio"
        ),
        "and by 5.7, 5.1, 2.2 (cloud)": "fig8_mlp_ratio fig8_conv1_ratio fig8_conv2_ratio",
        "one layer is slower than two under loss": (
            "fig7_one_layer_slowest fig7_one_layer_slowest_5 fig8_one_layer_slowest"
        ),
        "by 23.9 and 22.9 %": "fig7_two_layers_by_one fig8_two_layers_by_one",
        "latency changes nothing (stand-alone)": "fig9_mlp_same fig9_conv1_same fig9_conv2_same",
        "and multiplies the time by 4.3, 1.4, 0.8 (cloud)": (
            "fig10_mlp_ratio fig10_conv1_ratio fig10_conv2_ratio"
        ),
        "under latency a convolution takes 20 and 1.9 times as long": "fig9_conv1_by_mlp fig10_conv1_by_mlp",
        "and a second 55 and 26.31 % more": "fig9_conv2_by_conv1 fig10_conv2_by_conv1",
        "accuracies of 97 and 99 %": "accuracy_mlp accuracy_conv1 accuracy_one_layer_more",
        "the second layer contributes less; more layers are always better": (
            "accuracy_second_layer accuracy_rises_with_layers"
        ),
        "the link does not change the accuracy": "accuracy_bandwidth accuracy_loss accuracy_latency",
        "a faster link shortens the training (stand-alone)": (
            "fig5_mlp_faster fig5_conv1_faster fig5_conv2_faster"
        ),
        "and in the cloud": "fig6_mlp_faster fig6_conv1_faster fig6_conv2_faster",
        "the models' seconds at 400 and 2000 Mbit/s (stand-alone)": (
            "fig5_conv1_by_mlp_400 fig5_conv1_by_mlp_2000 fig5_conv2_by_conv1_400 fig5_conv2_by_conv1_2000"
        ),
        "and in the cloud (seconds)": (
            "fig6_conv1_by_mlp_400 fig6_conv1_by_mlp_2000 fig6_conv2_by_conv1_400 fig6_conv2_by_conv1_2000"
        ),
        "loss slows the training": (
            "fig7_mlp_slower fig7_conv1_slower fig7_conv2_slower fig8_mlp_slower fig8_conv1_slower "
            "fig8_conv2_slower"
        ),
        "latency slows it in the cloud": "fig10_mlp_slower fig10_conv1_slower fig10_conv2_slower",
    },
    "pani2020": {
        "one GPU is faster than 2, 4 and 8": "fig3_1_before_2 fig3_2_before_4 fig3_4_before_8",
        "the CNN's loss grows with the batch": "fig1_loss_grows",
        "its error falls": "fig2_error_falls",
        "neither depends on the number of devices": "fig1_same_loss fig1_same_loss_4 fig2_same_error_4",
        "ResNet-18's loss is large at low batches, and improves with them": "fig4_loss_improves",
        "it is negative, and less so with large batches": "fig4_loss_less_negative",
        "it is even nan": "fig4_nan",
        "larger batches improve its accuracy": "fig5_accuracy_rises",
        "its time hardly changes from 1 to 8 GPUs": "fig6_same_time",
        "512 is a local maximum of its time": "fig10_more_than_448 fig10_more_than_576",
        "which doubles there": "fig9_doubled_at_512",
        "a node k times slower takes 1/(k + 1) of the load": "load_by_speed",
    },
    "anwar2021": {
        "one host cannot run 64,000": "fig9_batch64000_fails_on_one_host",
        "0 ms: four hosts win at 6400 and more": "fig9_batch64000 fig9_batch32000 fig9_batch6400",
        "three at 2560 and 1280, one at 192": "fig9_batch2560 fig9_batch1280 fig9_batch192",
        "one host is twice as fast at 1280, three the fastest at 32,000": (
            "fig8_batch1280_one_host fig8_batch1280_by_three fig8_batch32000"
        ),
        "20 ms: three win at 64,000 and 32,000": "fig11_batch64000 fig11_batch32000",
        "by 4.2 and 31 %": "fig11_batch64000_three_by_four fig11_batch64000_three_by_two",
        "four at 6400 (by 14 and 38 %) and 2560": (
            "fig11_batch6400 fig11_batch6400_four_by_three fig11_batch6400_four_by_two fig11_batch2560"
        ),
        "one at 192": "fig11_batch192",
        "40 ms": (
            "fig12_batch64000 fig12_batch32000 fig12_batch6400 fig12_batch2560 fig12_batch1280 fig12_batch192"
        ),
        "60 ms and more: four never win": "fig13_four_gain_nothing",
        "three win at 6400 and more": (
            "fig13_batch64000 fig14_batch64000 fig15_batch64000 fig13_batch32000 fig14_batch32000 "
            "fig15_batch32000 fig13_batch6400 fig14_batch6400 fig15_batch6400"
        ),
        "two below": (
            "fig13_batch2560 fig14_batch2560 fig15_batch2560 fig13_batch1280 fig14_batch1280 "
            "fig15_batch1280 fig13_batch192 fig14_batch192 fig15_batch192"
        ),
        "more latency makes an epoch longer": "fig10_latency_slows",
        "43 and 37 s an epoch": "fig7_two_by_one",
        "27 and 24 ms a step": "fig7_steps",
        "4,64000,0,419 and 3,64000,0,503": "table4_batch64000_four_by_three",
        "4,32000,0,220 and 3,32000,0,265": (
            "table4_batch32000_four_by_three table4_four_64000_by_32000 table4_three_64000_by_32000"
        ),
        "4,6400,0,57 and 1,6400,0,96": "table4_batch6400_four_by_one table4_four_32000_by_6400",
        "1,2560,0,39": "table4_one_6400_by_2560",
        "2,6400,20,90 and 2,2560,20,41": "table4_two_6400_by_2560",
        "(64000, 0) -> 4, (64000, 20) -> 3": "fig9_batch64000 fig11_batch64000",
        "no accuracy is lost by scaling": "no_accuracy_lost",
    },
    "shi2019": {
        "a parameter server's speed-up levels off": "fig4_3_levels_off",
        "a ring's is proportional": (
            "fig4_4_alexnet fig4_4_vgg16 fig4_4_resnet50 fig4_4_vgg19 fig4_4_resnet152"
        ),
        "traffic grows at a parameter server": "fig5_1_server_traffic",
        "and stays the same in a ring": "fig4_15_ring_traffic fig4_18_ring_traffic",
        "a ring moves 2 (N - 1) / N of the data": "ring_bytes_2 ring_bytes_4 ring_bytes_6 ring_bytes_alexnet",
    },
    "wang2019": {
        "InfiniBand is 14 times as fast as 10 GbE at 1000 kB": "fig2_infiniband",
        "Singularity is 10 % faster than Docker": "fig3_singularity fig3_singularity_8",
        "Horovod is 17 % faster": "fig4_horovod",
        "89 and 65 % of linear scaling": "fig5_efficiency_infiniband fig5_efficiency_ethernet",
        "37 % faster over InfiniBand": "fig5_infiniband",
        "scaling over InfiniBand is almost linear, and faster": (
            "fig5_almost_linear_infiniband fig5_infiniband_faster"
        ),
    },
}


@pytest.mark.parametrize("study", CLAIMED)
def test_all_that_a_paper_claims_is_there_and_what_is_there_it_claims(study):
    claims = {claim.name for claim in read_claims(REPOSITORY / f"config/claims/{study}.yaml", REPOSITORY)}
    assert claims == {name for names in CLAIMED[study].values() for name in names.split()}
