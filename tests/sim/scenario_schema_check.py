"""Says for every YAML text of a JSON list whether the scenario schema accepts it: scenario_schema_check.py SCHEMA TEXTS

Prints one line a text, "accepts" or "rejects". Exit code 77: a package is missing.
"""
import json
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(error)
    sys.exit(77)


class Loader(yaml.SafeLoader):
    """Dates stay text, as in YAML 1.2."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}



def value_of(text):
    """JSON as JSON: PyYAML refuses the tabs that it may hold."""
    try:
        return json.loads(text)
    except ValueError:
        return yaml.load(text, Loader)


with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
with open(sys.argv[2]) as file:
    texts = json.load(file)
for text in texts:
    print("accepts" if validator.is_valid(value_of(text)) else "rejects")
