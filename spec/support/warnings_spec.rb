# frozen_string_literal: true

require "spec_helper"

RSpec.describe Support::Warnings do
  it "makes an unexpected warning an error, and remembers it even when that is swallowed" do
    expect { warn "out of the blue" }.to raise_error(described_class::Unexpected, /blue/)
    expect(described_class.unexpected).to eq(["out of the blue\n"])
  end

  it "catches the expected ones" do
    expect(warnings { warn "expected" }).to eq(["expected\n"])
    expect { warn "expected" }.to output("expected\n").to_stderr
  end

  it "passes over warnings about other people's files" do
    Warning.warn("/elsewhere/gem.rb:1: warning: not ours\n")
    expect { Warning.warn("#{described_class::OURS}/lib/x.rb:1: warning: ours\n") }.to raise_error(
      described_class::Unexpected
    )
    described_class.unexpected
  end

  it "passes over those about a lease that an example left when it failed" do
    lease = open_store.acquire(unique_key, ttl: 60)
    described_class.pass_over_leases
    about = ->(fence) { warn "a lease of #{lease.store_key} (fence #{fence}) was collected" }
    expect { about.call(lease.fence) }.not_to raise_error
    expect(warnings { about.call(lease.fence) }).to be_empty
    expect { about.call(lease.fence + 1) }.to raise_error(described_class::Unexpected)
    expect(described_class.unexpected).to contain_exactly(/a lease/)
    lease.release
  end
end
