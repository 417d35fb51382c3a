//! Definitions of custom kinds: the time until one is served, and the cost of many that are not used.

use super::{
    Outcome, SETTLING, answered, figure, measured,
    start::{Starts, directory, is_embedded, start_in},
};
use crate::{
    Failure,
    cluster::{Connection, RequestError},
    custom::{DEFINITIONS, small, small_definition},
    drive::{DriveResult, Pace, Request, clients, drive},
    results::Row,
    run::Run,
    target::Target,
};
use http::{Method, StatusCode};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// The number of definitions that are created one after another.
const SINGLE: usize = 20;
/// The time that a definition may take until it is served.
const SERVED_MAX: Duration = Duration::from_secs(60);
/// The pause between two checks whether a definition is served.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
/// The number of starts of a server that has many definitions.
const STARTS: usize = 5;

pub(super) async fn definitions(run: &Arc<Run>) -> Result<Outcome, Failure> {
    let many = run.options.definitions;
    let single = served_after(run).await?;
    let (mut created, driven) = create_many(run, many).await?;
    report_memory(&mut created, many);
    let remove = Pace::exactly((SINGLE + many) as u64);
    let (removed, undone) = measured(
        run,
        "delete",
        "definition",
        Request::Undefine,
        run.options.concurrency,
        remove,
        &Arc::default(),
    )
    .await?;
    let mut outcome =
        Outcome { rows: vec![single, created, removed], checks: vec![answered(&[&driven, &undone])] };
    if let Target::Own(own) = &run.options.target
        && is_embedded(own)
    {
        let directory = directory(own)?;
        let server = start_in(own, directory.path()).await?;
        let load = run.on(&server).await?;
        create_many(&load, many).await?;
        server.stop().await?;
        let mut starts = Starts::default();
        for _ in 0..STARTS {
            starts.add(start_in(own, directory.path()).await?).await?;
        }
        outcome.rows.push(starts.row(&format!("start with {many} definitions")));
    }
    Ok(outcome)
}

/// Creates definitions one after another. The measured time begins with the answer, and ends with the first list.
async fn served_after(run: &Arc<Run>) -> Result<Row, Failure> {
    run.progress.set_message("single definitions");
    let mut connection = run.cluster.connect().await?;
    let meter = run.meter();
    for number in 0..SINGLE {
        let json = small_definition(run.objects.run(), number, &run.objects.labels());
        connection.ask(Method::POST, DEFINITIONS, json).await?;
        let answered = Instant::now();
        until_served(run, &mut connection, number).await?;
        meter.latencies.record(0, answered.elapsed().as_micros() as u64);
    }
    Ok(meter.row("from the answer until it is served", "definition", SINGLE as u64, 0))
}

async fn until_served(run: &Run, connection: &mut Connection, number: usize) -> Result<(), Failure> {
    let path = format!("/apis/{}/v1/{}?limit=1", run.objects.group(), small(number));
    let began = Instant::now();
    loop {
        match connection.get(&path).await {
            Ok(_) => return Ok(()),
            Err(RequestError::Answer(StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS, _))
                if began.elapsed() < SERVED_MAX =>
            {
                sleep(POLL_INTERVAL).await;
            }
            Err(refused) => return Err(refused.into()),
        }
    }
}

/// Creates many definitions, until all are served. A server may still work on them for a while.
async fn create_many(run: &Arc<Run>, many: usize) -> Result<(Row, DriveResult), Failure> {
    run.progress.set_message(format!("{many} definitions"));
    let workers = clients(run, run.options.concurrency).await?;
    sleep(SETTLING).await;
    let meter = run.meter();
    let pace = Pace::exactly(many as u64);
    let (request, none) = (Request::Define(SINGLE), Arc::default());
    let driven = drive(run, workers, request, pace, &none, &meter.latencies).await?;
    let mut connection = run.cluster.connect().await?;
    // They are processed about in order.
    for number in (SINGLE..SINGLE + many).rev() {
        let path = format!("{DEFINITIONS}/{}.{}", small(number), run.objects.group());
        let began = Instant::now();
        while !is_established(&connection.get(&path).await?) {
            if began.elapsed() > SERVED_MAX {
                return Err(Failure::new(format!("{path} is not established after {SERVED_MAX:?}")));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    sleep(SETTLING).await;
    let row =
        meter.row(format!("{many} definitions of 30 fields"), "definition", driven.count, driven.failed);
    Ok((row, driven))
}

fn is_established(definition: &[u8]) -> bool {
    let definition: serde_json::Value = serde_json::from_slice(definition).unwrap_or_default();
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|each| each["type"] == "Established" && each["status"] == "True")
}

fn report_memory(row: &mut Row, many: usize) {
    if let Some(memory) = row.memory.filter(|_| many > 0) {
        let each = memory.after_bytes.saturating_sub(memory.before_bytes) as f64 / many as f64;
        row.figures.push(figure("memory for each definition", each, "bytes", Some(true)));
    }
}
