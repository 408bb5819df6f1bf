"""Robot data the way a lab has it, from real physics.

    make_rollouts.py OUT [EPISODES [STEPS]]

Rolls out Fetch pick-and-place episodes in MuJoCo with a scripted policy and writes
  frames.parquet            one row a control step: episode, step, time, state, action, reward
  episodes.csv              one row an episode: number, task, steps, success, video, cloud
  videos/episode-NNN.mp4    H.264, one an episode
  clouds/episode-000.ply    the scene of the first episode as a point cloud, from the depth image
"""
import csv
import multiprocessing
import os
import sys

os.environ.setdefault("MUJOCO_GL", "osmesa")

import gymnasium as gym
import gymnasium_robotics
import imageio
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZE = 96
FPS = 25
START_US = 1_700_000_000_000_000


def policy(observation, rng):
    """Reaches for the block, closes the gripper on it and carries it to the goal."""
    gripper, block = observation["observation"][:3], observation["observation"][3:6]
    goal = observation["desired_goal"]
    offset = block - gripper
    if np.linalg.norm(offset[:2]) > 0.02:
        move, close = np.array([offset[0], offset[1], offset[2] + 0.06]), 1.0
    elif np.linalg.norm(offset) > 0.02:
        move, close = offset, 1.0
    else:
        move, close = goal - gripper, -1.0
    action = np.concatenate([np.clip(move * 6.0, -1, 1), [close]])
    action[:3] += rng.normal(0, 0.05, 3)
    return np.clip(action, -1, 1).astype(np.float32)


def write_ply(path, points):
    header = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(points)}\n"
        "property float x\nproperty float y\nproperty float z\nend_header\n"
    )
    with open(path, "wb") as out:
        out.write(header.encode())
        out.write(points.astype("<f4").tobytes())


def point_cloud(env):
    """The depth image of the scene, back-projected into metres."""
    model = env.unwrapped.model
    depth = env.unwrapped.mujoco_renderer.render("depth_array").astype(np.float64)
    near = model.vis.map.znear * model.stat.extent
    far = model.vis.map.zfar * model.stat.extent
    depth = near / (1 - depth * (1 - near / far))
    height, width = depth.shape
    focal = 0.5 * height / np.tan(np.radians(model.vis.global_.fovy) / 2)
    rows, columns = np.indices(depth.shape)
    x = (columns - width / 2) * depth / focal
    y = (rows - height / 2) * depth / focal
    points = np.stack([x, y, depth], axis=-1).reshape(-1, 3)
    return points[np.isfinite(points).all(axis=1) & (points[:, 2] < 10)]


COLUMNS = ("episode", "step", "time_us", "state", "action", "reward", "contact")


def roll_out(out, episode, steps):
    """One episode: its frames, and what its line in episodes.csv says."""
    gym.register_envs(gymnasium_robotics)
    env = gym.make("FetchPickAndPlace-v4", render_mode="rgb_array", max_episode_steps=steps,
                   width=SIZE, height=SIZE)
    rng = np.random.default_rng(episode)
    observation, info = env.reset(seed=episode)
    rows = {name: [] for name in COLUMNS}
    video = f"videos/episode-{episode:03d}.mp4"
    with imageio.get_writer(os.path.join(out, video), fps=FPS, codec="libx264",
                            macro_block_size=2, quality=7) as writer:
        for step in range(steps):
            action = policy(observation, rng)
            writer.append_data(env.render())
            state = observation["observation"].astype(np.float32)
            observation, reward, _, _, info = env.step(action)
            time_us = START_US + episode * 60_000_000 + step * (1_000_000 // FPS)
            contact = bool(np.abs(state[9:11]).sum() < 0.09)
            for name, value in zip(COLUMNS, (episode, step, time_us, state, action,
                                             float(reward), contact)):
                rows[name].append(value)
    cloud = ""
    if episode == 0:
        cloud = "clouds/episode-000.ply"
        write_ply(os.path.join(out, cloud), point_cloud(env))
    env.close()
    return rows, [episode, "pick and place", steps, str(bool(info.get("is_success"))).lower(),
                  video, cloud]


def main():
    out = sys.argv[1]
    episodes = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    for directory in ("videos", "clouds"):
        os.makedirs(os.path.join(out, directory), exist_ok=True)
    with multiprocessing.Pool(min(os.cpu_count(), episodes)) as pool:
        results = pool.starmap(roll_out, [(out, e, steps) for e in range(episodes)], chunksize=1)
    rows = {name: [value for result, _ in results for value in result[name]] for name in COLUMNS}
    state = np.stack(rows["state"]).reshape(-1)
    action = np.stack(rows["action"]).reshape(-1)
    table = pa.table({
        "episode": pa.array(rows["episode"], pa.int64()),
        "step": pa.array(rows["step"], pa.int32()),
        "time": pa.array(rows["time_us"], pa.timestamp("us")),
        "state": pa.FixedSizeListArray.from_arrays(pa.array(state, pa.float32()), 25),
        "action": pa.FixedSizeListArray.from_arrays(pa.array(action, pa.float32()), 4),
        "reward": pa.array(rows["reward"], pa.float64()),
        "contact": pa.array(rows["contact"], pa.bool_()),
    })
    pq.write_table(table, os.path.join(out, "frames.parquet"))
    with open(os.path.join(out, "episodes.csv"), "w", newline="") as listing_file:
        csv.writer(listing_file, lineterminator="\n").writerows(line for _, line in results)
    print(f"{episodes} episodes, {table.num_rows} frames")


if __name__ == "__main__":
    main()
