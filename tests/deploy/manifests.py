"""Reads YAML files and prints their documents as one JSON array, for tests/it/deployed.rs.

With --kubernetes each document is held against the models of Kubernetes' own Python client first: an unknown field, a missing one
or one of another type is a fault, as the API server would find it. Exit code 1 where there is a fault, with each on a line.
"""

import json
import re
import sys

import yaml


def kubernetes_faults(document, file):
    from kubernetes.client import models

    def check(value, kind, at):
        if value is None:
            return
        if listed := re.fullmatch(r"list\[(.+)\]", kind):
            if not isinstance(value, list):
                yield f"{at}: no list"
                return
            for n, item in enumerate(value):
                yield from check(item, listed[1], f"{at}[{n}]")
        elif mapped := re.fullmatch(r"dict\((.+?), (.+)\)", kind):
            if not isinstance(value, dict):
                yield f"{at}: no map"
                return
            for key, item in value.items():
                yield from check(item, mapped[2], f"{at}.{key}")
        elif kind in ("object", "datetime"):
            pass
        elif kind in ("str", "int", "bool", "float"):
            # A quantity may be written as a number; nothing else may stand for a text.
            wanted = {"str": str, "int": int, "bool": bool, "float": (int, float)}[kind]
            if not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
                yield f"{at}: {value!r} is no {kind}"
        else:
            yield from check_model(value, getattr(models, kind), at)

    def check_model(value, model, at):
        if not isinstance(value, dict):
            # The one type that may be a number or a name (a port).
            yield f"{at}: no {model.__name__}"
            return
        python_names = {name: python for python, name in model.attribute_map.items()}
        for name, item in value.items():
            if name not in python_names:
                yield f"{at}.{name}: {model.__name__} has no such field"
            else:
                yield from check(item, model.openapi_types[python_names[name]], f"{at}.{name}")
        # Its constructor refuses what lacks a required field.
        known = {python_names[name]: item for name, item in value.items() if name in python_names}
        try:
            model(**known)
        except ValueError as fault:
            yield f"{at}: {fault}"

    group = {"apps/v1": "V1", "v1": "V1", "policy/v1": "V1", "networking.k8s.io/v1": "V1"}.get(document.get("apiVersion"))
    model = getattr(models, f"{group}{document.get('kind')}", None)
    if model is None:
        yield f"{file}: {document.get('apiVersion')} {document.get('kind')} is not known"
        return
    yield from check_model(document, model, f"{file}: {document['kind']}")


def main():
    files = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    documents, faults = [], []
    for file in files:
        with open(file, encoding="utf-8") as text:
            documents += [(file, document) for document in yaml.safe_load_all(text) if document is not None]
    if "--kubernetes" in sys.argv:
        faults = [fault for file, document in documents for fault in kubernetes_faults(document, file)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        sys.exit(1)
    print(json.dumps([document for _, document in documents]))


if __name__ == "__main__":
    main()
