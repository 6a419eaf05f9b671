//! What `docker-compose.yml` and `deploy/` say, held against the gateway itself and against the tools that read it: every
//! configuration there passes `check`, every name leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::metrics::promtool;
use crate::world::{On, TEST, World};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat()
}

/// What a command says; it must end well.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: scripts/test brings it"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// `tests/deploy/manifests.py`, in the environment that scripts/test makes for it.
fn manifests(arguments: &[&str]) -> Command {
    let mut python = Command::new(path("target/python/bin/python3"));
    python.arg(path("tests/deploy/manifests.py")).args(arguments).current_dir(ROOT);
    python
}

fn documents(arguments: &[&str]) -> Vec<Value> {
    serde_json::from_str(&run(&mut manifests(arguments))).unwrap()
}

fn compose() -> Value {
    documents(&["docker-compose.yml"]).remove(0)
}

/// Names and values of a map; none where there is none.
fn entries(map: &Value) -> impl Iterator<Item = (&str, &Value)> {
    map.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().expect("a text"))
}

/// A folder with what `scripts/secrets` makes.
fn secrets() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    fs::create_dir(&scripts).unwrap();
    fs::copy(path("scripts/secrets"), scripts.join("secrets")).unwrap();
    make_secrets(&folder);
    folder
}

/// Runs the script there. By bash: a file that was just written can't be executed while another test forks with it open.
fn make_secrets(folder: &TempDir) {
    run(Command::new("bash").arg(folder.path().join("scripts/secrets")));
}

/// Every file and its text under a folder.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![(path.clone(), fs::read_to_string(path).unwrap())],
    };
    entries.flat_map(read).collect()
}

/// Writes a container's configuration to where this machine has its secrets and its data, and has the gateway check it.
fn check(files: &[(PathBuf, String)], gateway: &str, secrets: (&str, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = text.replace(secrets.0, &format!("{}/", secrets.1.display()));
        fs::write(file, text.replace("/var/lib/wecom-gateway", &data)).unwrap();
    }
    let config = folder.path().join(gateway);
    run(Command::new(env!("CARGO_BIN_EXE_wecom-gateway")).args(["check", "--config"]).arg(config));
}

#[test]
fn secrets_are_made_once() {
    let folder = secrets();
    let made = files(&folder.path().join("secrets"));
    make_secrets(&folder);
    assert_eq!(files(&folder.path().join("secrets")), made);
    let wanted: BTreeSet<String> =
        entries(&compose()["secrets"]).map(|(_, secret)| secret["file"].as_str().unwrap().to_owned()).collect();
    let made = made.iter().map(|(file, _)| format!("./secrets/{}", file.file_name().unwrap().display())).collect();
    assert_eq!(wanted, made);
}

#[test]
fn each_compose_configuration_passes_check_and_is_a_profile() {
    let (folder, compose, base) = (secrets(), compose(), path("config/compose"));
    let profiles: BTreeSet<&str> =
        entries(&compose["services"]).flat_map(|(_, service)| texts(&service["profiles"])).collect();
    let files: Vec<(PathBuf, String)> =
        files(&base).into_iter().map(|(file, text)| (file.strip_prefix(&base).unwrap().to_owned(), text)).collect();
    let gateways = files.iter().map(|(file, _)| file.to_str().unwrap()).filter(|file| !file.contains('/'));
    for gateway in gateways.clone() {
        check(&files, gateway, ("/run/secrets/", &folder.path().join("secrets")));
        let profile = gateway.strip_suffix(".toml").unwrap();
        assert!(profile == "gateway" || profiles.contains(profile), "{gateway}: {profiles:?}");
    }
    assert!(gateways.count() >= 4);
}

#[test]
fn compose_services_are_healthy_keep_what_they_have_and_lead_somewhere() {
    let compose = compose();
    for (name, service) in entries(&compose["services"]) {
        // What runs once and ends, and what is there for a test alone.
        let (once, passing) = (["kafka-topics", "simulate"].contains(&name), name == "load-gateway");
        let health = &service["healthcheck"];
        assert_eq!(health["test"].is_array(), !once, "{name}");
        assert_eq!(service["restart"] == "unless-stopped", !once && !passing, "{name}");
        // `image: redis` would be another one tomorrow.
        let image = service["image"].as_str().unwrap();
        assert!(image == "wecom-gateway" || image.rsplit_once(':').is_some_and(|(_, tag)| tag != "latest"), "{image}");
        // Docker itself would keep every line for ever.
        let logging = &service["logging"];
        assert!(logging["driver"] == "json-file" && logging["options"]["max-size"].is_string(), "{name}: {logging}");
        for secret in texts(&service["secrets"]) {
            assert!(compose["secrets"][secret].is_object(), "{name}: {secret}");
        }
        let mounts: Vec<(&str, &str)> =
            texts(&service["volumes"]).map(|mount| mount.split_once(':').expect("from:to")).collect();
        for (from, to) in &mounts {
            match from.strip_prefix("./") {
                Some(file) => assert!(path(file).exists() && to.ends_with(":ro"), "{name}: {from}:{to}"),
                None => assert!(compose["volumes"].as_object().unwrap().contains_key(*from), "{name}: {from}"),
            }
        }
        assert!(once || passing || mounts.iter().any(|(from, _)| !from.starts_with('.')), "{name} keeps nothing");
        // Nothing is open to the network.
        assert!(texts(&service["ports"]).all(|port| port.starts_with("127.0.0.1:")), "{name}");
        for (other, when) in entries(&service["depends_on"]) {
            let required = when["required"] != false;
            let other = &compose["services"][other];
            assert!(
                other.is_object()
                    && (!required || other["profiles"] == service["profiles"] || other["profiles"].is_null())
            );
        }
    }
}

#[test]
fn hadolint_finds_nothing_in_the_dockerfile() {
    assert_eq!(run(Command::new(path("target/python/bin/hadolint")).arg(path("Dockerfile"))), "");
}

#[test]
fn prometheus_reads_its_configuration() {
    let (folder, secrets) = (tempfile::tempdir().unwrap(), secrets());
    for (file, text) in files(&path("deploy/prometheus")) {
        let text = text.replace("/run/secrets", &secrets.path().join("secrets").display().to_string());
        fs::write(folder.path().join(file.file_name().unwrap()), text).unwrap();
    }
    promtool(&["check", "config", folder.path().join("prometheus.yml").to_str().unwrap()]).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_probe_tells_what_the_gateway_says() {
    let test = async {
        let world = World::new(On::Embedded, &["c1"]).await;
        let probe = async |path_there: &'static str, port: u16| {
            let mut probe = Command::new(path("deploy/docker/probe"));
            probe.arg(path_there).env("PROBE_PORT", port.to_string());
            tokio::task::spawn_blocking(move || probe.output().unwrap().status.success()).await.unwrap()
        };
        let port = world.app.admin_addr().port();
        assert!(probe("/livez", port).await && probe("/readyz", port).await);
        assert!(!probe("/nowhere", port).await);
        world.end().await;
        assert!(!probe("/livez", port).await);
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[test]
fn systemd_takes_the_unit_and_finds_it_closed() {
    let unit = fs::read_to_string(path("deploy/systemd/wecom-gateway.service")).unwrap();
    let binary = "/usr/local/bin/wecom-gateway ";
    assert_eq!(unit.matches(binary).count(), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wecom-gateway.service");
    fs::write(&file, unit.replace(binary, concat!(env!("CARGO_BIN_EXE_wecom-gateway"), " "))).unwrap();
    // It only warns of what it does not know.
    assert_eq!(run(Command::new("systemd-analyze").arg("verify").arg(&file)), "");
    // Out of 100: from 20 on its own word is no longer "OK".
    run(Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=15"])
        .arg(&file));
}

#[test]
fn kubernetes_takes_the_manifests_and_their_names_lead_somewhere() {
    let all = documents(&["--kubernetes", "deploy/kubernetes/gateway.yaml", "deploy/kubernetes/configuration.yaml"]);
    let of_kind = |kind: &'static str| all.iter().filter(move |document| document["kind"] == kind);
    let set = of_kind("StatefulSet").next().unwrap();
    let template = &set["spec"]["template"];
    let (labels, pod) = (&template["metadata"]["labels"], &template["spec"]);
    let container = &pod["containers"][0];
    let ports: Vec<&str> = texts_at(&container["ports"], "name").collect();
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        assert!(ports.contains(&asked["port"].as_str().unwrap()), "{probe}");
        assert!(["/livez", "/readyz"].contains(&asked["path"].as_str().unwrap()), "{probe}");
    }
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    for budget in of_kind("PodDisruptionBudget") {
        assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    }
    let policy = &of_kind("NetworkPolicy").next().unwrap()["spec"];
    assert_eq!(&policy["podSelector"]["matchLabels"], labels);
    let open: Vec<(&str, bool)> = policy["ingress"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| texts_at(&rule["ports"], "port").map(|port| (port, rule["from"].is_null())))
        .collect();
    assert_eq!(open, [("callbacks", true), ("operators", false)], "a port, and whether everybody may come to it");
    for service in of_kind("Service") {
        assert_eq!(&service["spec"]["selector"], labels);
        assert!(texts_at(&service["spec"]["ports"], "targetPort").all(|port| ports.contains(&port)));
    }
    assert!(of_kind("Service").any(|service| service["metadata"]["name"] == set["spec"]["serviceName"]));
    let claims = set["spec"]["volumeClaimTemplates"].as_array().unwrap();
    let volumes: BTreeSet<&str> = texts_at(&pod["volumes"], "name")
        .chain(claims.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(texts_at(&container["volumeMounts"], "name").collect::<BTreeSet<_>>(), volumes);

    // What the pods are given to read is a configuration, by the names of the secrets that the file's first lines make.
    let configuration = of_kind("ConfigMap").next().unwrap();
    let mounted = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["configMap"].is_object()).unwrap();
    assert_eq!(mounted["configMap"]["name"], configuration["metadata"]["name"]);
    let items = mounted["configMap"]["items"].as_array().unwrap();
    let files: Vec<(PathBuf, String)> = items
        .iter()
        .map(|item| {
            let text = configuration["data"][item["key"].as_str().unwrap()].as_str().expect("a key of the ConfigMap");
            (item["path"].as_str().unwrap().into(), text.to_owned())
        })
        .collect();
    assert_eq!(files.len(), configuration["data"].as_object().unwrap().len());
    let (manifest, folder) = (fs::read_to_string(path("deploy/kubernetes/gateway.yaml")).unwrap(), secrets());
    let made = folder.path().join("secrets");
    for (file, _) in self::files(&made) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if !manifest.contains(&format!("--from-literal={name}=")) {
            fs::remove_file(file).unwrap();
        }
    }
    check(&files, "gateway.toml", ("/run/secrets/wecom-gateway/", &made));
}

/// The texts under one name of each item.
fn texts_at<'a>(list: &'a Value, name: &'a str) -> impl Iterator<Item = &'a str> {
    list.as_array().into_iter().flatten().map(move |item| item[name].as_str().expect("a text"))
}

#[test]
fn faults_of_manifests_are_found() {
    let whole = fs::read_to_string(path("deploy/kubernetes/gateway.yaml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (from, to, told) in [
        ("readinessProbe:", "readynessProbe:", "readynessProbe"),
        ("replicas: 2", "replicas: two", "is no int"),
        (
            "  selector:\n    matchLabels: { app.kubernetes.io/name: wecom-gateway }\n  template:",
            "  template:",
            "`selector`",
        ),
        ("kind: Service\n", "kind: Servize\n", "Servize"),
        ("fsGroup: 10001", "fsGroup: 10001\n        fsUser: 1", "fsUser"),
    ] {
        let file = folder.path().join("gateway.yaml");
        assert!(whole.contains(from), "{from}");
        fs::write(&file, whole.replace(from, to)).unwrap();
        let output = manifests(&["--kubernetes", file.to_str().unwrap()]).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(told), "{to}: {}", said(&output));
    }
}
