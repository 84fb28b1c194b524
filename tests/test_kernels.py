"""The agent on the kernels of other machines, emulated: ./test --kernels. tools/kernels fetches them."""

import json
import re
import shutil

import agents
import fixtures
import guests
import pytest

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(guests.BOOT_SECONDS + 60)]

WALKERS = fixtures.ROOT / "build/dev/src/agent/agent_sample_programs_test"
CAPABILITIES = "bpf,perfmon,sys_ptrace,dac_read_search,checkpoint_restore,syslog"
AS_USER = (
    "/bin/setpriv --reuid 1000 --regid 1000 --clear-groups"
    f" --inh-caps -all,{','.join('+' + c for c in CAPABILITIES.split(','))}"
    f" --ambient-caps -all,{','.join('+' + c for c in CAPABILITIES.split(','))}"
)
SCRIPT = f"""
run doctor flametap doctor --json
known_spin > /dev/null &
run own flametap record -F 97 -d 4s -p $! -o /tmp/own.folded
run own_stacks cat /tmp/own.folded
run all flametap record -F 97 -d 4s --all -o /tmp/all.folded
run all_stacks cat /tmp/all.folded
sysctl -w kernel.perf_event_paranoid=3 > /dev/null
run user_at_3 {AS_USER} /bin/flametap doctor --json
sysctl -w kernel.perf_event_paranoid=2 > /dev/null
ulimit -l unlimited
run user_at_2 {AS_USER} /bin/flametap doctor --json
run user_record {AS_USER} /bin/flametap record -F 97 -d 2s --all -o /tmp/user.folded
run user_stacks cat /tmp/user.folded
run walkers agent_sample_programs_test
"""


SERIES = ("5.10", "6.1", "6.12", "7")


def release_of(series):
    """The newest kernel of a series in build/kernels, or None."""
    found = [release for release in guests.kernels() if release.startswith(series + ".")]
    return found[-1] if found else None


@pytest.fixture(scope="module", params=SERIES)
def guest(request, tmp_path_factory):
    kernel = release_of(request.param)
    if not kernel:
        pytest.skip(f"SKIPPED ALOUD: no kernel {request.param} in build/kernels; tools/kernels {request.param} fetches it")
    folder = tmp_path_factory.mktemp("guest")
    spin = agents.compile_spin(folder)
    walkers = [WALKERS] if WALKERS.exists() else []
    return guests.run(kernel, [spin, shutil.which("setpriv"), *walkers], SCRIPT, folder)


def stacks(text):
    """Folded lines -> [(frames, count)]."""
    lines = [line for line in text.splitlines() if re.fullmatch(r".+ \d+", line)]
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]


def complete_share(text):
    """How many samples of the known program there are, and which share of them shows its whole stack."""
    known = ["main", "known_outer", "known_middle", "known_leaf"]
    spinning = [(frames, n) for frames, n in stacks(text) if frames[0] == "known_spin" and "known_leaf" in frames]
    whole = sum(n for frames, n in spinning if "_start" in frames and frames[frames.index("main") :][:4] == known)
    return sum(n for _, n in spinning), whole / max(1, sum(n for _, n in spinning))


def findings(output):
    return {f["name"]: f for f in json.loads(output)["findings"]}


def test_doctor_finds_everything(guest):
    output, code = guest["doctor"]
    wrong = [f for f in findings(output).values() if f["state"] != "ok"]
    assert (code, wrong) == (0, [])


def test_a_program_of_ours_is_recorded_whole(guest):
    assert guest["own"][1] == 0, guest["own"][0]
    samples, whole = complete_share(guest["own_stacks"][0])
    assert samples >= 60 and whole >= 0.97, guest["own_stacks"][0]


def test_the_machine_is_recorded(guest):
    assert guest["all"][1] == 0, guest["all"][0]
    samples, whole = complete_share(guest["all_stacks"][0])
    assert samples >= 60 and whole >= 0.97, guest["all_stacks"][0]


def test_the_verifier_takes_each_runtime(guest):
    if not WALKERS.exists():
        pytest.skip(f"SKIPPED ALOUD: {WALKERS} is not built: ./test build_dev")
    output, code = guest["walkers"]
    assert code == 0 and "all of them: " in output, output


def test_kernel_frames_have_names(guest):
    frames = [f for stack, _ in stacks(guest["all_stacks"][0] + guest["own_stacks"][0]) for f in stack]
    assert any(f in frames for f in ("do_syscall_64", "asm_sysvec_apic_timer_interrupt", "entry_SYSCALL_64_after_hwframe")), frames


def test_debians_own_level_of_paranoia_is_named_with_its_fix(guest):
    output, code = guest["user_at_3"]
    finding = findings(output)["perf_event_paranoid"]
    assert code == 1 and finding["state"] == "missing"
    assert "CAP_PERFMON" in finding["found"] and "perf_event_paranoid=2" in finding["fix"]


def test_six_capabilities_do_elsewhere(guest):
    output, code = guest["user_at_2"]
    assert code == 0, output
    assert guest["user_record"][1] == 0, guest["user_record"][0]
    samples, whole = complete_share(guest["user_stacks"][0])
    assert samples >= 20 and whole >= 0.95, guest["user_stacks"][0]
