"""The tests' own tables of the wire versions, held against what others say."""

import collections

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2

import fixtures
import handmade
import schemas
import view



@pytest.mark.parametrize("body", fixtures.BODIES, ids=repr)
def test_table_decodes_as_the_official_descriptors_did(body):
    request = schemas.schema(body.version).Request.FromString(body.bytes)
    expected = json_format.ParseDict(body.official_json, schemas.schema(body.version).Request())
    assert request == expected
    assert not unknown_fields(request)


@pytest.mark.parametrize("body", fixtures.NEWEST_BODIES, ids=repr)
def test_newest_table_equals_the_official_package(body):
    ours = schemas.schema("1.10").Request.FromString(body.bytes)
    official = profiles_service_pb2.ExportProfilesServiceRequest.FromString(body.bytes)
    assert json_format.MessageToDict(ours) == json_format.MessageToDict(official)


def unknown_fields(message):
    from google.protobuf.unknown_fields import UnknownFieldSet
    found = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for sub in value if field.is_repeated else [value]:
                found += unknown_fields(sub)
    return found


@pytest.mark.parametrize("body", fixtures.BODIES, ids=repr)
def test_view_counts_what_the_recording_counted(body):
    v = view.view(body.version, schemas.schema(body.version).Request.FromString(body.bytes))
    row = fixtures.readme_table()[body.name]
    frames = collections.Counter()
    events = samples = 0
    for _, _, _, sample in view.samples(v):
        samples += 1
        events += view.event_count(sample)
        frames.update(view.frame_type(f) or "unknown" for f in sample["stack"])
    assert (samples, events) == (row["samples"], row["events"])
    assert dict(frames) == row["frames"]


@pytest.mark.parametrize("version", ["1.5", "1.7", "1.8", "1.9"])
def test_view_of_the_transcoded_bodies_is_that_of_their_source(version):
    """The same data in older schemas: only what those schemas changed may differ."""
    source = fixtures.body("v1.11.0-synthetic-offcpu-links")
    old = fixtures.body(f"v{version}.0-synthetic-transcoded")
    a = view.without_extras(view.view("1.10", schemas.schema("1.10").Request.FromString(source.bytes)))
    b = view.without_extras(view.view(version, schemas.schema(version).Request.FromString(old.bytes)))
    if version in ("1.5", "1.7"):
        # those carry one summed value per sample, and samples of timestamps only have their count
        for (_, _, _, x), (_, _, _, y) in zip(view.samples(a), view.samples(b), strict=True):
            assert y["values"] == [sum(x["values"]) if x["values"] else len(x["timestamps"])]
            y["values"] = x["values"]
    assert a == b


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_hand_made_body_has_a_view(version):
    request = handmade.rich(version)
    again = schemas.schema(version).Request.FromString(request.SerializeToString())
    assert repr(view.view(version, again)) == repr(view.view(version, request))
    links = [s["link"] for _, _, _, s in view.samples(view.view(version, request)) if s["link"]]
    assert (handmade.TRACE.hex(), handmade.SPAN.hex()) in links
