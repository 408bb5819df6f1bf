"""What every table of a data directory must be for pylance, whatever test wrote it."""

import pathlib

import lance

MAX_DATASETS = 40  # of one data directory; a test of thousands of tables checks the first ones


def check_tables(data_dir):
    """pylance opens each dataset, finds it sound, lists its versions and decodes every row."""
    checked = []
    root = pathlib.Path(data_dir) / "tables"
    for path in sorted(root.glob("*/*.lance"))[:MAX_DATASETS]:
        if not (path / "_versions").is_dir():
            continue
        dataset = lance.dataset(str(path))
        dataset.validate()
        versions = [version["version"] for version in dataset.versions()]
        assert versions == sorted(set(versions)) and versions[-1] == dataset.version, versions
        rows = sum(batch.num_rows for batch in dataset.to_batches())
        assert rows == dataset.count_rows(), path
        checked.append((path.parent.name, path.name.removesuffix(".lance"), dataset.version, rows,
                        dataset.schema.names))
    return checked
