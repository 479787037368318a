# frozen_string_literal: true

require "openssl"
require "pathname"
require "plock/client_address/tls_parameters"

RSpec.describe Plock::ClientAddress::TLSParameters do
  def read(**parameters) = described_class.read(parameters)

  it "takes over the names of files" do
    expect(read(ca_file: "/ca.pem", ca_path: "/certs", cert: "/us.crt", key: Pathname("/us.key")))
      .to eq(ca_file: "/ca.pem", ca_path: "/certs", cert: "/us.crt", key: "/us.key")
  end

  it "takes over that verification is off" do
    expect(read(verify_mode: OpenSSL::SSL::VERIFY_NONE)).to eq(verify: :none)
  end

  it "takes over that verification is on" do
    expect(read(verify_mode: OpenSSL::SSL::VERIFY_PEER)).to eq(verify: :peer)
  end

  it "takes over the name to verify" do
    expect(read(hostname: "db1.example")).to eq(server_name: "db1.example")
  end

  it "needs nothing for plock's defaults" do
    expect(read(verify_hostname: true, min_version: :TLS1_2, ca_file: nil)).to eq({})
  end

  it "understands names that are Strings" do
    expect(described_class.read("ca_file" => "/ca.pem")).to eq(ca_file: "/ca.pem")
  end

  {
    { cert: OpenSSL::X509::Certificate.new } => /cert that is not in a file/,
    { key: "-----BEGIN PRIVATE KEY-----\n" } => /key that is not in a file/,
    { cert_store: OpenSSL::X509::Store.new } => /cert_store/,
    { verify_hostname: false } => /verify_hostname: false/,
    { min_version: :TLS1_3 } => /min_version: :TLS1_3/,
    { ciphers: "DEFAULT" } => /ciphers/
  }.each do |parameters, message|
    it "refuses #{parameters.keys.first} that it would have to leave out (#{message.source})" do
      expect { read(**parameters) }.to raise_error(Plock::UnsupportedError, message) { |error|
        expect(error.message).not_to include("PRIVATE KEY")
      }
    end
  end
end
