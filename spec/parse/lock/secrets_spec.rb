# frozen_string_literal: true

require_relative "../parse_context"

RSpec.describe Parse::Lock::Secrets do
  include_context "with Parse"

  describe ".configured" do
    it "is what Parse has, as a String" do
      Parse.synchronize_create_secret = 42
      expect(described_class.configured).to eq("42")
    end

    it "is else what the environment has now" do
      expect(described_class.configured).to eq(secret)
      ENV["PARSE_STACK_LOCK_SECRET"] = "another"
      expect(described_class.configured).to eq("another")
    end

    it "is nil without either" do
      ENV.delete("PARSE_STACK_LOCK_SECRET")
      expect(described_class.configured).to be_nil
    end
  end

  describe ".for" do
    it "is the configured one, of any length, for every store" do
      ENV["PARSE_STACK_LOCK_SECRET"] = "x"
      expect([described_class.for("Me") { true }, described_class.for("Me") { false }]).to eq(
        %w[x x]
      )
    end

    context "where none is configured" do
      let(:secret) { "" }

      it "is one of this process for a store of this process" do
        expect(described_class.for("Me") { true }).to eq(described_class.generated)
      end

      it "is none for a store that others see, which is warned of once" do
        heard = warnings { 3.times { expect(described_class.for("Me") { false }).to be_nil } }
        expect(heard.size).to be(1)
        expect(heard.first).to start_with(
          "[Me:SECURITY] No PARSE_STACK_LOCK_SECRET configured and Redis-backed store detected."
        )
      end

      it "treats an empty one in Parse as none, and does not look further" do
        ENV["PARSE_STACK_LOCK_SECRET"] = "x"
        Parse.synchronize_create_secret = ""
        expect(described_class.for("Me") { true }).to eq(described_class.generated)
      end

      it "names both risks and the three remedies" do
        text = warnings { described_class.for("Me") { false } }.first
        expect(text).to match(/enumerate/).and match(/pin/).and match(
          /set PARSE_STACK_LOCK_SECRET/
        ).and match(/Parse\.synchronize_create_secret/).and match(
          /Parse\.synchronize_create_store/
        )
      end

      it "warns once even if many threads ask together" do
        gate = Queue.new
        heard = warnings do
          threads = Array.new(8) { background { gate.pop && described_class.for("Me") { false } } }
          threads.each { |thread| await_sleep(thread) }
          8.times { gate.push(:go) }
          threads.each(&:join)
        end
        expect(heard.size).to be(1)
      end
    end
  end

  describe ".generated" do
    it "is random, and the same until it is reset" do
      first = described_class.generated
      expect(first).to match(/\A\h{64}\z/)
      expect(described_class.generated).to eq(first)
      described_class.reset
      expect(described_class.generated).not_to eq(first)
    end
  end
end
