//! Keeps types, zones and prices up to date, and tidies up (AWS-112, AWS-212, AWS-161).

use std::time::Duration;

use tracing::{info, warn};

use super::AwsProvider;
use crate::cloud::ApiError;
use crate::pricing::{
    ListSkipped, PriceError, on_demand_queries, on_demand_skipped, parse_products, parse_spot_prices,
};

/// Types, zones and prices.
const EVERY: Duration = Duration::from_hours(12);
/// After a failure, and twice as long after each further one.
const RETRY: Duration = Duration::from_secs(5);
/// Twelve hours of failures at this pace are 144 calls.
const RETRY_AT_MOST: Duration = Duration::from_mins(5);
/// Unused templates and refusals that are over.
const TIDY: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    #[error("{call} failed")]
    Call { call: &'static str, source: ApiError },
    #[error(transparent)]
    Prices(#[from] PriceError),
    #[error("EC2 lists no {0}")]
    Nothing(&'static str),
}

fn failed(call: &'static str) -> impl Fn(ApiError) -> RefreshError {
    move |source| RefreshError::Call { call, source }
}

/// What a refresh of the price list did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    Done,
    Skipped(ListSkipped),
}

impl AwsProvider {
    /// Types and the zones that sell them. An empty answer cannot be right and changes nothing.
    pub async fn discover(&self) -> Result<(), RefreshError> {
        let (types, offerings) = tokio::join!(self.clients.reads.instance_types(), self.clients.reads.type_offerings());
        let types = types.map_err(failed("DescribeInstanceTypes"))?;
        let offerings = offerings.map_err(failed("DescribeInstanceTypeOfferings"))?;
        if types.is_empty() {
            return Err(RefreshError::Nothing("instance types"));
        }
        if offerings.is_empty() {
            return Err(RefreshError::Nothing("zones of instance types"));
        }
        let mut facts = self.facts();
        let changed = [facts.catalogue.types_answered(types), facts.catalogue.offerings_answered(offerings)];
        facts.catalogue_version += u64::from(changed.contains(&true));
        Ok(())
    }

    /// Prices on demand; what the list leaves out keeps its price.
    pub async fn refresh_on_demand_prices(&self) -> Result<Refreshed, RefreshError> {
        let region = &self.settings.sizing.region;
        if let Some(why) = on_demand_skipped(region, self.settings.isolated_vpc) {
            return Ok(Refreshed::Skipped(why));
        }
        let [shared, metal] = on_demand_queries(region);
        let (shared, metal) =
            tokio::join!(self.clients.lookups.products(&shared), self.clients.lookups.products(&metal));
        let read = |items: Vec<String>| parse_products(region, items.iter().map(String::as_str));
        let shared = read(shared.map_err(failed("GetProducts"))?);
        let metal = read(metal.map_err(failed("GetProducts"))?);
        let mut facts = self.facts();
        facts.prices.merge_on_demand(shared, metal)?;
        facts.prices_version += 1;
        Ok(Refreshed::Done)
    }

    pub async fn refresh_spot_prices(&self) -> Result<(), RefreshError> {
        let history = self.clients.reads.spot_prices(self.now()).await.map_err(failed("DescribeSpotPriceHistory"))?;
        let mut facts = self.facts();
        facts.prices.merge_spot(parse_spot_prices(history))?;
        facts.prices_version += 1;
        Ok(())
    }

    async fn refresh_prices(&self) -> Result<(), RefreshError> {
        let (on_demand, spot) = tokio::join!(self.refresh_on_demand_prices(), self.refresh_spot_prices());
        on_demand?;
        spot
    }

    /// Refusals that are over, templates that nobody uses.
    pub async fn tidy(&self) {
        let now = self.now();
        self.facts().unavailable.sweep(now);
        if let Err(error) = self.delete_unused_templates().await {
            warn!(error = &error as &dyn std::error::Error, "launch templates stay longer than they are used");
        }
    }

    /// Keeps everything up to date for as long as it is polled. Types are taken as discovered just before.
    pub async fn run(&self) {
        if let Some(why) = on_demand_skipped(&self.settings.sizing.region, self.settings.isolated_vpc) {
            info!(?why, "prices on demand are the built-in ones");
        }
        let types = async {
            tokio::time::sleep(EVERY).await;
            repeat("types", || self.discover()).await;
        };
        let prices = repeat("prices", || self.refresh_prices());
        let tidying = async {
            loop {
                tokio::time::sleep(TIDY).await;
                self.tidy().await;
            }
        };
        tokio::join!(types, prices, tidying);
    }
}

/// At once and every so often; after a failure sooner. What was known stays in use.
async fn repeat<F: Future<Output = Result<(), RefreshError>>>(what: &'static str, refresh: impl Fn() -> F) {
    let mut retry = RETRY;
    loop {
        match refresh().await {
            Ok(()) => {
                retry = RETRY;
                tokio::time::sleep(EVERY).await;
            }
            Err(error) => {
                warn!(what, error = &error as &dyn std::error::Error, "refresh failed, the last answer stays in use");
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_AT_MOST);
            }
        }
    }
}
